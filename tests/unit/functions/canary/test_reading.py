"""What the canary makes of frames, events and moments."""

from __future__ import annotations

import pytest

from evenflow.functions.canary.reading import (
    Frame,
    LogText,
    ServerEvent,
    Stopwatch,
    WrongAnswer,
    server_events,
)


def stopwatch_at(*moments: float) -> Stopwatch:
    """One that begins at the first moment and reads the next one each time."""
    return Stopwatch(iter(moments).__next__)


def delta(index: int, text: str) -> Frame:
    return {"type": "chat.response.delta", "index": index, "delta": text}


def restarted(from_index: int, index: int) -> Frame:
    return {"type": "chat.response.restarted", "from_index": from_index, "index": index}


def completed(finish_reason: str, *, degraded: bool = False) -> Frame:
    return {
        "type": "chat.response.completed",
        "finish_reason": finish_reason,
        "degraded": degraded,
    }


def text_of(*frames: Frame) -> str:
    log = LogText()
    for frame in frames:
        log.take(frame, Stopwatch())
    return log.text


def test_the_times_are_those_of_the_first_text_and_the_last() -> None:
    stopwatch = stopwatch_at(10.0, 10.5, 11.0, 12.5)
    for _ in range(3):
        stopwatch.text_came()
    reading = stopwatch.ended("abc").streamed()
    assert (reading.first_seconds, reading.last_seconds) == (0.5, 2.5)


def test_text_that_came_at_once_was_not_streamed() -> None:
    stopwatch = stopwatch_at(0.0, 3.0, 3.09)
    stopwatch.text_came()
    stopwatch.text_came()
    with pytest.raises(WrongAnswer, match=r"all 4 characters came at once after 3\.0 s"):
        stopwatch.ended("text").streamed()


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_answer_without_text_is_none(text: str) -> None:
    stopwatch = stopwatch_at(0.0, 1.0)
    stopwatch.text_came()
    with pytest.raises(WrongAnswer, match="without any text"):
        stopwatch.ended(text)


def test_a_restart_replaces_what_came_after_its_index() -> None:
    assert text_of(delta(0, "a"), delta(1, "b"), restarted(0, 2), delta(3, "c")) == "ac"
    assert text_of(delta(0, "a"), restarted(-1, -1), delta(0, "b")) == "b"


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (completed("cancelled"), "ended with cancelled"),
        (completed("stop", degraded=True), "fallback answer"),
        ({"type": "chat.response.error", "error": {"code": "upstream_failed"}}, "upstream_failed"),
    ],
)
def test_an_end_that_is_not_the_models_is_wrong(end: Frame, said: str) -> None:
    with pytest.raises(WrongAnswer, match=said):
        text_of(delta(0, "a"), end)


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_an_answer_that_the_model_ended_is_whole(finish_reason: str) -> None:
    assert text_of(delta(0, "a"), completed(finish_reason)) == "a"


def test_events_are_read_as_browsers_read_them() -> None:
    lines = [
        *(b"retry: 500\n", b": a comment\n", b"event: token\n", b"id: 3\n", b"data: one\n"),
        *(b"data:two\n", b"\n", b"id: 4\n", b"\n", b"data: x\r\n", b"\r\n", b"data: unfinished\n"),
    ]
    assert list(server_events(lines)) == [
        ServerEvent("token", "one\ntwo", "3"),
        ServerEvent("message", "x", None),
    ]
