"""Log entries and endings as JSON, which every store keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from stream_core.log.response_log import LogEntry, ResponseState, Restart
from stream_core.ports.response_store import Ending

PlainEntry = str | list[int]
"""A log entry that JSON can hold: a delta's text, or the numbers of a restart marker."""


def plain_entries(entries: Sequence[LogEntry]) -> list[PlainEntry]:
    """Turn log entries into values for JSON."""
    return [entry if isinstance(entry, str) else _plain(entry) for entry in entries]


def read_entries(plain: Sequence[PlainEntry]) -> list[LogEntry]:
    """Turn the values of `plain_entries` back into log entries."""
    return [entry if isinstance(entry, str) else Restart(*entry) for entry in plain]


def ending_text(ending: Ending) -> str:
    """Turn an ending into a JSON text."""
    return orjson.dumps(ending).decode()


def read_ending(text: str) -> Ending:
    """Turn a JSON text back into an ending."""
    ending: dict[str, Any] = orjson.loads(text)
    ending["state"] = ResponseState(ending["state"])
    return Ending(**ending)


def _plain(marker: Restart) -> list[int]:
    epoch = [marker.epoch] if marker.epoch else []
    return [marker.from_index, marker.attempt, *epoch]
