"""The four DynamoDB tables as the stores use them: keys, and the attribute by which items expire.

`infra/constructs/data/tables.py` makes them with the same names. A test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass

TTL_ATTRIBUTE = "expires_at"
"""Seconds since the epoch. DynamoDB deletes up to days later, so every read filters by it too."""

UNFINISHED_INDEX = "by-owner"
"""The index of the responses' table: the keys of heads without an ending, by owner."""

UNFINISHED_KEY = "running"
"""The index's key: the owner's name, on heads without an ending."""


@dataclass(frozen=True, slots=True)
class TableKeys:
    """A table's key attributes, all strings. `sort` is None if there is none."""

    partition: str
    sort: str | None


SESSIONS = TableKeys("channel", None)
LEDGER = TableKeys("channel", "message_id")
RESPONSES = TableKeys("response_id", "position")
TENANTS = TableKeys("tenant", "row")
"""Records of tenants, their counters, what is reserved, and what they have used."""


@dataclass(frozen=True, slots=True)
class TableNames:
    """The tables' names in this environment. Without one of tenants there are only given keys."""

    sessions: str
    ledger: str
    responses: str
    tenants: str | None = None
