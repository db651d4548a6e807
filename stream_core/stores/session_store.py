"""The port of the session store: accepted messages, the ledger, and texts too large for that.

Their answers are in the response store (`response_store`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Protocol

from evenflow.stream_core.base.channel import Channel, MessageKind
from evenflow.stream_core.stores.conversation_tree import MessageLink
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS, Lease

LARGE_TEXT_SECONDS = LIFETIME_SECONDS + 3_600.0
"""How long a large text is kept. That is longer than its message, which is accepted later."""


class LargeTexts(Protocol):
    """Keeps large texts for all nodes, as long as messages. Methods may raise StoreUnavailable."""

    async def put(self, name: str, text: str) -> None:
        """Keep a text. A name always has the same text."""

    async def get(self, name: str) -> str | None:
        """The text of this name. None when it is no longer kept."""

    async def delete(self, name: str) -> None:
        """Delete a text. A name without one changes nothing."""


class NotAccepted(Exception):
    """The message exists already, or is not the next one. Nothing was changed: load again."""


class StoreFull(Exception):
    """The store has no room for a message of this sender. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An accepted message.

    Args:
        answer: the text of its response for later calls of the model. None before the end, or if
            it is not remembered.
        replaces: the message that it replaces, in a new version of the conversation.
        terms, kind: the texts of its `MessageTerms` and `MessageKind`. Empty for a plain message.
        text_name: the name of its text in `LargeTexts`. `text` is empty then.
        outcome: the text of the `Outcome` of its response. Empty before the end, and for a message
            that brings its conversation.
        parent_message_id: the last message of the older version that it continues.
        sender_digest, text_bytes: a digest of the sender within its tenant to which its bytes
            count, and the size of its text in `LargeTexts`. Stores that count bytes use them, and
            do not return them.
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
    outcome: str = ""
    parent_message_id: str | None = None
    sender_digest: str = field(default="", compare=False)
    text_bytes: int = field(default=0, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # What dataclasses do by themselves takes several times as long.
        return LedgerEntry, _values_of(self)

    @property
    def link(self) -> MessageLink:
        """Its place in the conversation."""
        return MessageLink(
            self.message_id, self.previous_message_id, self.replaces, self.parent_message_id
        )


_values_of = attrgetter(*(each.name for each in fields(LedgerEntry)))


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A session's messages in causal order, oldest first. The oldest may have been forgotten.

    `ended`: whether the session was ended. Then it has no messages, and accepts none.
    `has_versions`: whether one of its messages begins a branch. Only `head` reads it.
    """

    last_message_id: str | None
    messages: Sequence[LedgerEntry]
    ended: bool = False
    has_versions: bool = False


class SessionStore(Protocol):
    """The session store: the messages of all nodes' sessions. `now` is in seconds since the epoch.

    A message of a chat is kept for the lifetime of sessions, which is a setting; one that brings
    its conversation for `LIFETIME_SECONDS`.

    Every method may raise StoreUnavailable.
    """

    async def load(self, channel: Channel, now: float) -> StoredConversation:
        """The messages of a session. An unknown session has none."""

    async def head(self, channel: Channel, now: float) -> StoredConversation:
        """The session without its messages."""

    async def message(self, channel: Channel, message_id: str, now: float) -> LedgerEntry | None:
        """One message of a session. None when there is none, or it has expired."""

    async def links(
        self, channel: Channel, last_message_id: str, now: float
    ) -> Sequence[MessageLink]:
        """The links of a session's messages up to this one, in causal order."""

    async def find_ended(self, channels: Collection[Channel], now: float) -> frozenset[Channel]:
        """The sessions among these that were ended. One of the last second may be missing."""

    async def accept(self, channel: Channel, entry: LedgerEntry, now: float) -> Lease:
        """Accept a message: write its row, the last message and an empty response, or nothing.

        If the message brings its conversation, a store may keep its text in `LargeTexts`, by the
        response's id. The entry that it returns later has this id as `text_name`.

        A call that may have succeeded can be repeated with the same response_id.

        Returns:
            The lease of the response's first owner.

        Raises:
            NotAccepted: the message exists already, or is not the next one, or the session was
                ended. Nothing was changed.
            StoreFull: there is no room for it.
        """

    async def record_answer(
        self, channel: Channel, message_id: str, answer: str | None, outcome: str = ""
    ) -> None:
        """Record that a message's response has ended. An unknown message is ignored.

        The text of a message that brings its conversation may be deleted: it is not needed again.
        """

    async def end(self, channel: Channel, now: float) -> Sequence[LedgerEntry]:
        """End a session: delete its messages, and accept none for `LIFETIME_SECONDS`.

        No token of the session is valid longer than that. A second call changes nothing.

        Returns:
            The messages that it had, in no order.
        """


def kept_seconds(entry: LedgerEntry, lifetime: float) -> float:
    """How long a message is kept, if those of chats are kept for `lifetime` seconds."""
    brings_conversation = MessageKind.from_text(entry.kind).brings_conversation
    return LIFETIME_SECONDS if brings_conversation else lifetime
