from __future__ import annotations

import logging

import pytest

from fargate_handler.token_sources.operator_log import OperatorLog


class Watch:
    """Seconds that a test sets."""

    now = 0.0


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def operator(watch: Watch) -> OperatorLog:
    return OperatorLog(logging.getLogger("of the test"), lambda: watch.now)


def test_it_is_told_at_once_and_then_once_a_minute_with_how_often(
    watch: Watch, operator: OperatorLog, caplog: pytest.LogCaptureFixture
) -> None:
    for second in range(121):
        watch.now = float(second)
        operator.error("a wrong key")
    assert caplog.messages == [
        "a wrong key",
        "a wrong key (60 times since the last such line)",
        "a wrong key (60 times since the last such line)",
    ]


def test_another_line_is_told_at_once_too(
    operator: OperatorLog, caplog: pytest.LogCaptureFixture
) -> None:
    for line in ("a wrong key", "a wrong model", "a wrong key"):
        operator.error(line)
    assert caplog.messages == ["a wrong key", "a wrong model"]


def test_it_is_one_line_whatever_the_model_s_server_said(
    operator: OperatorLog, caplog: pytest.LogCaptureFixture
) -> None:
    operator.error("no quota left (pay\r\n2026-11-22 ERROR evenflow: a line of its own)")
    assert caplog.messages == ["no quota left (pay 2026-11-22 ERROR evenflow: a line of its own)"]


def test_what_is_remembered_is_bounded(operator: OperatorLog) -> None:
    for number in range(1000):
        operator.error(f"line {number}")
    assert len(operator._told) <= 32
