from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from evenflow.fargate_handler.orchestrator.silent_models import SilentModels
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.metrics import metric_catalogue as catalogue


def answer(number: int) -> Any:
    """A running answer, as far as it is looked at."""
    log = SimpleNamespace(next_index=0)
    stream = SimpleNamespace(response_id=f"r{number}", log=log, tokens=0)
    return SimpleNamespace(stream=stream, upstream=SimpleNamespace(name="m"))


def test_a_model_that_sends_nothing_for_two_looks_is_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    rate = metrics.ratio(catalogue.SILENT_RATE)
    models, answers = SilentModels(metrics), [answer(number) for number in range(3)]
    counted = []
    for minute in range(4):
        models.look(60.0 * minute, answers)
        counted.append((rate.part, rate.whole))
        answers[0].stream.tokens += 1
        answers[1].stream.log.next_index += 1  # its reasoning
    assert counted == [(0, 3), (0, 6), (1, 9), (2, 12)]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "1 of 3 running answers" in caplog.text
    assert "r2 by model 'm' for 120 s" in caplog.text


def test_a_model_that_goes_on_is_silent_no_more() -> None:
    metrics = Metrics()
    models, one = SilentModels(metrics), answer(1)
    for minute in range(3):
        models.look(60.0 * minute, [one])
    one.stream.tokens = 1
    models.look(180.0, [one])
    models.look(240.0, [one])
    assert metrics.ratio(catalogue.SILENT_RATE).part == 1


def test_an_answer_that_waited_meanwhile_is_looked_at_anew() -> None:
    """Its readers had paused it, or it was preempted."""
    metrics = Metrics()
    models, one = SilentModels(metrics), answer(1)
    models.look(0.0, [one])
    models.look(60.0, [])
    models.look(120.0, [one])
    assert metrics.ratio(catalogue.SILENT_RATE).part == 0
