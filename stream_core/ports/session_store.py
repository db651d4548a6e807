"""The port of the ledger: accepted messages, and texts that are too large for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stream_core.policy.channel import Channel
from stream_core.ports.response_store import LIFETIME_SECONDS, Lease

LARGE_TEXT_SECONDS = LIFETIME_SECONDS + 3_600.0
"""How long a large text is kept: longer than its message, which is accepted later."""


class LargeTexts(Protocol):
    """Large texts, for all tasks, kept as long as messages. Methods may raise StoreUnavailable."""

    async def put(self, name: str, text: str) -> None:
        """Keep a text. A name always has the same text."""

    async def get(self, name: str) -> str | None:
        """The text of this name. None when it is no longer kept."""


class NotAccepted(Exception):
    """The message is known already, or isn't the next one. Nothing was changed: load again."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An accepted message.

    Args:
        answer: the text of its response. None before the end, or without one to remember.
        replaces: the message before it that it replaces, with all that came after that one.
        terms, kind: the texts of its `MessageTerms` and `MessageKind`. Empty for a plain message.
        text_name: the name of its text in `LargeTexts`. `text` is empty then.
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
    """A session's messages in causal order, oldest first. The oldest may have been forgotten."""

    last_message_id: str | None
    entries: Sequence[LedgerEntry]


class SessionStore(Protocol):
    """The sessions of all tasks. `now` is in seconds since the epoch.

    Every method may raise StoreUnavailable.
    """

    async def load(self, channel: Channel, now: float) -> StoredConversation:
        """The messages of a session. None of an unknown one."""

    async def accept(self, channel: Channel, entry: LedgerEntry, now: float) -> Lease:
        """Accept a message: write its row, the last message and an empty response, or nothing.

        A call that may have succeeded can be repeated with the same response_id.

        Returns:
            The lease of the response's first owner.

        Raises:
            NotAccepted: the message is known already, or isn't the next one. Nothing was changed.
        """

    async def answered(self, channel: Channel, message_id: str, answer: str | None) -> None:
        """Note that a message's response has ended. An unknown message is ignored.

        The text of a message that brings its conversation may be deleted: nobody answers it again,
        and it is in no history.
        """


def in_causal_order(
    last_message_id: str | None, entries: Sequence[LedgerEntry]
) -> list[LedgerEntry]:
    """The messages up to `last_message_id`, from the oldest that is linked to it."""
    by_id = {entry.message_id: entry for entry in entries}
    chain: list[LedgerEntry] = []
    message_id = last_message_id
    while message_id is not None and (entry := by_id.pop(message_id, None)) is not None:
        chain.append(entry)
        message_id = entry.previous_message_id
    return chain[::-1]


def standing(entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """The conversation: of `entries`, in causal order, those that no later one replaces."""
    stand: list[LedgerEntry] = []
    for entry in entries:
        if entry.replaces is not None:
            known = [message.message_id for message in stand]
            # One that is no longer kept was before all that are.
            del stand[known.index(entry.replaces) if entry.replaces in known else 0 :]
        stand.append(entry)
    return stand
