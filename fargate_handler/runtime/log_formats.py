"""The two forms of a line in the log: for a person at a terminal, and JSON for everything else."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.orjson import OrjsonFormatter

from evenflow.stream_core.bounds.log_rate import EACH
from evenflow.stream_core.records.event_record import EventRecord

TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_LONGEST = 8_192
# Characters beside control characters that break a line, or change the direction of text.
_ESCAPED_CODES = (
    *range(127, 160),
    *(0x061C, 0x200E, 0x200F),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), *_ESCAPED_CODES)}
_TRACEBACK_CONTROLS = {code: shown for code, shown in _CONTROLS.items() if chr(code) not in "\t\n"}
# Characters that JSON may contain, and a terminal takes for a command.
_JSON_CONTROLS = {code: f"\\u{code:04x}" for code in _ESCAPED_CODES}
_LEFT_OUT = ("left_out", "dropped")
_FIELDS = ("levelname", "name", "message")
_NAMES = {"levelname": "level", "name": "logger"}


class LineFormatter(logging.Formatter):
    """A message is one line, whatever a client wrote into it. A traceback follows on its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and what was left out before it."""
        line, newline, traceback = super().format(record).partition("\n")
        notes = "".join(_notes(record))
        whole = f"{cut(line, _LONGEST)}{notes}{newline}{traceback.translate(_TRACEBACK_CONTROLS)}"
        return cut(whole, 2 * _LONGEST)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line, without control characters."""
        return super().formatMessage(record).translate(_CONTROLS)


class JsonFormatter(OrjsonFormatter):
    """A line is one JSON object. The fields of an `EventRecord` are the object's.

    Args:
        static_fields: the fields that every line has.
    """

    def __init__(self, static_fields: Mapping[str, Any]) -> None:
        super().__init__(
            _FIELDS,
            rename_fields=_NAMES,
            reserved_attrs=[*RESERVED_ATTRS, *EACH],
            timestamp="timestamp",
            static_fields=dict(static_fields),
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Cut what is too long: a line has a limit."""
        for name in ("message", "exc_info"):
            if len(log_data.get(name) or "") > _LONGEST:
                log_data[name] = cut(log_data[name], _LONGEST)
        return log_data

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        if not isinstance(record.msg, EventRecord):
            return _without_controls(super().format(record))
        # There are as many of these as answers, and their known fields need a third of the time. A
        # log is paid for by its bytes, so the message does not repeat the fields.
        fields = record.msg.to_fields() | self.static_fields
        fields["timestamp"] = datetime.fromtimestamp(record.created, UTC)
        fields["level"] = record.levelname
        fields |= {name: value for name in _LEFT_OUT if (value := getattr(record, name, None))}
        return _without_controls(self.serialize_log_record(fields))


def _without_controls(line: str) -> str:
    """A line of JSON without those control characters that JSON may hold."""
    if line.isascii() and "\x7f" not in line:
        return line  # most are, and this is quicker
    return line.translate(_JSON_CONTROLS)


def cut(text: str, longest: int) -> str:
    """Cut a text in the middle: a traceback ends with the error."""
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]} … {text[-longest // 2 :]}"


def _notes(record: logging.LogRecord) -> list[str]:
    notes = []
    if left_out := getattr(record, "left_out", 0):
        notes.append(f" ({left_out} more of this kind were left out)")
    if dropped := getattr(record, "dropped", 0):
        notes.append(f" ({dropped} lines before it were dropped: the log was not read)")
    return notes
