"""The port to what is kept of sessions: accepted messages, and texts too large for an item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stream_core.policy.channel import Channel
from stream_core.ports.response_store import LIFETIME_SECONDS, Lease

LARGE_TEXT_SECONDS = LIFETIME_SECONDS + 3_600.0
"""How long a text is kept: longer than the message in the ledger that names it, which is accepted after it."""


class LargeTexts(Protocol):
    """Keeps texts for all tasks, for as long as the ledger keeps a message. Every method raises StoreUnavailable."""

    async def put(self, name: str, text: str) -> None:
        """Keep a text. The same name twice is the same text twice."""

    async def get(self, name: str) -> str | None:
        """The text of this name; None when it is no longer kept."""


class NotAccepted(Exception):
    """The message is in the ledger already, or doesn't follow the session's last one. Nothing was changed: load again."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An accepted message; `answer` is what the model said, None while it hasn't, or where there is nothing to remember.

    `replaces`: the message before it, where the model is to see neither that nor its answer any more.
    `terms` and `kind` are the texts of its `MessageTerms` and its `MessageKind`; empty for those of a chat's message.
    `text_name`: where a text that is too large is kept (`LargeTexts`); `text` is empty then.
    """

    message_id: str
    previous_message_id: str | None
    text: str
    response_id: str
    owner: str
    answer: str | None = None
    ended: bool = False
    replaces: str | None = None
    terms: str = ""
    kind: str = ""
    text_name: str | None = None


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A session's messages in causal order, oldest first; the oldest may be forgotten already."""

    last_message_id: str | None
    entries: Sequence[LedgerEntry]


class SessionStore(Protocol):
    """Where sessions are kept for all tasks. `now` is in seconds since the epoch. Every method raises StoreUnavailable."""

    async def load(self, channel: Channel, now: float) -> StoredConversation:
        """What is known of a session; of an unknown one, nothing."""

    async def accept(self, channel: Channel, entry: LedgerEntry, now: float) -> Lease:
        """Accept a message: ledger, the session's last message and an empty response, all or nothing.

        Returns the lease of its first owner. A call that may have succeeded can be repeated as it was, with the same
        response_id.

        Raises:
            NotAccepted: see there.
        """

    async def answered(self, channel: Channel, message_id: str, answer: str | None) -> None:
        """The message's response has ended. Of a message that is no longer known, nothing is kept.

        The text of one that brings its conversation need not be kept any longer: nobody answers it again, and no later
        message has it in its history.
        """


def in_causal_order(last_message_id: str | None, entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """`entries` from the oldest that is still linked to `last_message_id` to that one itself."""
    by_id = {entry.message_id: entry for entry in entries}
    chain: list[LedgerEntry] = []
    message_id = last_message_id
    while message_id is not None and (entry := by_id.pop(message_id, None)) is not None:
        chain.append(entry)
        message_id = entry.previous_message_id
    return chain[::-1]
