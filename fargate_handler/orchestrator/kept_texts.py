"""Which texts of messages stand in the ledger itself, and which beside it."""

from __future__ import annotations

from dataclasses import replace

from stream_core.errors import TooLarge
from stream_core.large_texts import LargeTexts
from stream_core.session_store import LedgerEntry

LARGEST_ITEM_TEXT = 196_608
"""Bytes. A message and its answer are one item of DynamoDB (400 KB), with room for the rest of it."""


class KeptTexts:
    """Puts what is too large for an item beside the ledger, and finds it there.

    Args:
        apart: where to; None for nowhere, and a text that is too large is refused.
    """

    def __init__(self, apart: LargeTexts | None = None) -> None:
        self._apart = apart

    async def put(self, entry: LedgerEntry) -> LedgerEntry:
        """The entry as it can be put on record.

        Raises:
            TooLarge: there is no place for its text.
            StoreUnavailable: it can't be kept now.
        """
        if len(entry.text.encode()) <= LARGEST_ITEM_TEXT:
            return entry
        if self._apart is None:
            raise TooLarge(
                f"the request is larger than the {LARGEST_ITEM_TEXT} bytes that a task's successor could be told, as "
                "EVENFLOW_REQUESTS_BUCKET is not set; nothing was generated",
                code="message_too_large",
            )
        await self._apart.put(entry.response_id, entry.text)
        return replace(entry, text="", text_name=entry.response_id)

    async def whole(self, entry: LedgerEntry) -> LedgerEntry | None:
        """The entry with its text; None when that is no longer kept.

        Raises:
            StoreUnavailable: it can't be read now.
        """
        if entry.text_name is None:
            return entry
        text = await self._apart.get(entry.text_name) if self._apart is not None else None
        return None if text is None else replace(entry, text=text)
