"""Log entries and endings as JSON, in which every store keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from evenflow.stream_core.log.entries import LogEntry, Part, PartKind, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.response_store import Ending

LARGEST_ITEM_TEXT = 196_608
"""Bytes. A DynamoDB item of 400 KB has a message, its answer, and room for the rest."""

PlainEntry = str | list[Any]
"""A log entry that JSON can hold: text of the answer, a part, or a restart marker.

A part is its kind, then the other fields in their order, up to the last one that is not the
default: `["call","",0,1,"call_1","search"]`. A marker is numbers: `[-1,2]`, or `[-1,-2]` if it
withdraws the text that it replaces.
"""


def plain_entries(entries: Sequence[LogEntry]) -> list[PlainEntry]:
    """Turn log entries into values for JSON."""
    return [entry if isinstance(entry, str) else _plain(entry) for entry in entries]


def read_entries(plain: Sequence[PlainEntry]) -> list[LogEntry]:
    """Turn the values of `plain_entries` back into log entries."""
    return [entry if isinstance(entry, str) else _read(entry) for entry in plain]


def ending_text(ending: Ending) -> str:
    """Turn an ending into a JSON text."""
    return orjson.dumps(ending).decode()


def read_ending(text: str) -> Ending:
    """Turn a JSON text back into an ending."""
    ending: dict[str, Any] = orjson.loads(text)
    ending["state"] = ResponseState(ending["state"])
    return Ending(**ending)


def _plain(entry: Part | Restart) -> list[Any]:
    if isinstance(entry, Restart):
        # Older versions take a negative number for a restart, too.
        attempt = -entry.attempt if entry.withdraws else entry.attempt
        epoch = [entry.epoch] if entry.epoch else []
        return [entry.from_index, attempt, *epoch]
    plain: list[Any] = [
        entry.kind.value,
        entry.text,
        entry.choice,
        entry.call,
        entry.id,
        entry.name,
    ]
    while not plain[-1]:
        plain.pop()
    return plain


def _read(plain: list[Any]) -> Part | Restart:
    if isinstance(plain[0], str):
        return Part(PartKind(plain[0]), *plain[1:])
    from_index, attempt, epoch = (*plain, 0)[:3]
    return Restart(from_index, abs(attempt), epoch, withdraws=attempt < 0)
