from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from evenflow.fargate_handler.runtime.log_formats import TEXT_FORMAT, JsonFormatter, LineFormatter
from evenflow.stream_core.bounds.log_rate import EACH
from evenflow.stream_core.records.event_record import EventRecord

_FORMATTER = JsonFormatter({"task": "t1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened(EventRecord):
    EVENT: ClassVar[str] = "happened"

    count: int
    unknown: str | None = None

    def __str__(self) -> str:
        return f"it happened {self.count} times"


def record(message: object, *values: object, **attributes: object) -> logging.LogRecord:
    made = logging.LogRecord("ours", logging.WARNING, "", 0, message, values, None)
    made.__dict__.update(attributes)
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line = _FORMATTER.format(made)
    assert "\n" not in line
    told: dict[str, Any] = json.loads(line)
    return told


def test_a_line_is_an_object_with_its_time_level_logger_and_task() -> None:
    told = as_json(record("%s of them", 3, **EACH))
    assert told.pop("timestamp").endswith("+00:00")
    assert told == {"level": "WARNING", "logger": "ours", "message": "3 of them", "task": "t1"}


def test_the_fields_of_a_record_are_the_lines() -> None:
    told = as_json(record(Happened(count=2), left_out=3))
    assert told.pop("timestamp").endswith("+00:00")
    assert told == {
        "level": "WARNING",
        "task": "t1",
        "event": "happened",
        "count": 2,
        "left_out": 3,
    }


def test_what_was_left_out_is_a_field_or_stands_behind_the_text() -> None:
    made = record("again", left_out=7, dropped=2)
    told = as_json(made)
    assert (told["left_out"], told["dropped"]) == (7, 2)
    assert (
        LineFormatter(TEXT_FORMAT)
        .format(made)
        .endswith(
            "ours: again (7 more of this kind were left out) "
            "(2 lines before it were dropped: the log was not read)"
        )
    )


def test_a_traceback_is_within_the_line_and_both_have_an_end() -> None:
    try:
        raise ValueError("the reason " + "x" * 50_000)
    except ValueError:
        made = record("y" * 50_000, exc_info=sys.exc_info())
    told = as_json(made)
    assert told["exc_info"].startswith("Traceback (most recent call last):")
    assert len(json.dumps(told)) < 20_000


_SHOWN_OTHERWISE = ("\u2028", "\u2029", "\u202e", "\u2066", "\u200f", "\u061c")


@pytest.mark.parametrize("said", ["\n", "\r", "\x1b[2J", "\x9b", "\x7f", *_SHOWN_OTHERWISE])
def test_no_client_can_move_the_cursor_end_the_line_or_turn_its_order(said: str) -> None:
    line = _FORMATTER.format(record("%s", said))
    text = LineFormatter(TEXT_FORMAT).format(record("%s", said))
    assert not {*line, *text} & {*"\n\r\x1b\x9b\x7f", *_SHOWN_OTHERWISE}
    assert json.loads(line)["message"] == said


def test_a_traceback_keeps_its_lines_and_no_other_control_character() -> None:
    try:
        raise ValueError("\x1b[2J\u202e\r")
    except ValueError:
        made = record("failed", exc_info=sys.exc_info())
    lines = LineFormatter(TEXT_FORMAT).format(made).split("\n")
    assert (lines[1], lines[-1]) == (
        "Traceback (most recent call last):",
        r"ValueError: \x1b[2J\u202e\r",
    )
