"""The port of a place for texts of messages that are too large for the ledger: it has their names instead."""

from __future__ import annotations

from typing import Protocol

from stream_core.response_store import LIFETIME_SECONDS

LARGE_TEXT_SECONDS = LIFETIME_SECONDS + 3_600.0
"""How long a text is kept: longer than the message in the ledger that names it, which is accepted after it."""


class LargeTexts(Protocol):
    """Keeps texts for all tasks, for as long as the ledger keeps a message. Every method raises StoreUnavailable."""

    async def put(self, name: str, text: str) -> None:
        """Keep a text. The same name twice is the same text twice."""

    async def get(self, name: str) -> str | None:
        """The text of this name; None when it is no longer kept."""
