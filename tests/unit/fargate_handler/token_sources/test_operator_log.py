from __future__ import annotations

import logging

import pytest

from evenflow.fargate_handler.token_sources.operator_log import OperatorLog


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


def test_what_a_server_says_of_one_request_is_no_line_of_its_own(
    watch: Watch, operator: OperatorLog, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(100):
        operator.warning("it answered 400", f"{number} is wrong")
    watch.now = 60.0
    operator.warning("it answered 400", "x\ny" * 1000)
    first, second = caplog.messages
    assert first == "it answered 400: 0 is wrong"
    assert second.startswith("it answered 400: x yx yx")
    assert second.endswith("(100 times since the last such line)")
    assert len(second) < 400


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("to postgres://app:hunter2@db:5432/x failed", "to postgres://…db:5432/x failed"),
        ("redis://:p@ss/w@h/0", "redis://…h/0"),
        ("Incorrect API key provided: sk-proj-abc12345.", "Incorrect API key provided: …."),
        ("Authorization: Bearer abc.def", "Authorization: …"),
        ("sent 'Bearer abc.def'", "sent 'Bearer …"),
        ("password=hunter2&user=app", "password=…&user=app"),
        ('{"api_key": "a b", "model": "m"}', '{"api_key": …, "model": "m"}'),
        ("AKIAIOSFODNN7EXAMPLE is not allowed", "… is not allowed"),
        ("token eyJhbGciOi.eyJzdWIi.sig", "token …"),
        ("wJalrXUtnFEMI+K7MDENG+bPxRfiCYEXAMPLEKEYX", "…"),
        ("at most 4096 tokens: shorten", "at most 4096 tokens: shorten"),
        ("see https://example.com/errors/400", "see https://example.com/errors/400"),
        ("/usr/lib/python3/site-packages/x.py", "/usr/lib/python3/site-packages/x.py"),
    ],
)  # fmt: skip
def test_secrets_are_masked(
    operator: OperatorLog, caplog: pytest.LogCaptureFixture, text: str, shown: str
) -> None:
    operator.error(text)
    operator.warning("it said", text)
    assert caplog.messages == [shown, f"it said: {shown}"]


def test_what_is_remembered_is_bounded(operator: OperatorLog) -> None:
    for number in range(1000):
        operator.error(f"line {number}")
    assert len(operator._logged_lines) <= 32
