"""The three DynamoDB tables: names of their keys, and the attribute by which items expire."""

from __future__ import annotations

from dataclasses import dataclass

TTL_ATTRIBUTE = "expires_at"
"""Seconds since the epoch. Real deletion is late by up to days, so every read filters by it too."""

UNFINISHED_INDEX = "by-owner"
"""Index on the responses' table: the keys of the heads that have no ending, by their owner."""

UNFINISHED_KEY = "running"
"""Its key: the owner's name, on heads without an ending."""


@dataclass(frozen=True, slots=True)
class TableKeys:
    """A table's key attributes, all strings; `sort` is None where there is none."""

    partition: str
    sort: str | None


SESSIONS = TableKeys("channel", None)
LEDGER = TableKeys("channel", "message_id")
RESPONSES = TableKeys("response_id", "position")


@dataclass(frozen=True, slots=True)
class TableNames:
    """The tables as they are called in this environment."""

    sessions: str
    ledger: str
    responses: str
