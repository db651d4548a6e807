"""Stores accepted messages before they are answered."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.response_recorder import ResponseRecorder
from evenflow.stream_core.base.channel import Channel, MessageKind
from evenflow.stream_core.base.errors import Overloaded, TooLarge
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.stores.response_store import Lease, StoreUnavailable
from evenflow.stream_core.stores.session_store import (
    LargeTexts,
    LedgerEntry,
    NotAccepted,
    SessionStore,
    StoredConversation,
    StoreFull,
)
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT


class MessageTexts:
    """Stores texts that are too large for the ledger.

    Args:
        store: stores large texts. None: they are rejected.
        largest: the longest text of the ledger, in bytes. None: no limit.
    """

    def __init__(
        self, store: LargeTexts | None = None, largest: int | None = LARGEST_ITEM_TEXT
    ) -> None:
        self._store = store
        self._largest = largest

    async def put(self, entry: LedgerEntry) -> LedgerEntry:
        """The entry for the ledger. A large text is stored apart from it.

        Raises:
            TooLarge: there is no store for its large text.
            StoreUnavailable: the text can't be written now.
        """
        size = len(entry.text.encode())
        if self._largest is None or size <= self._largest:
            return entry
        if self._store is None:
            raise TooLarge(
                f"the request is larger than {self._largest} bytes, the most that can be "
                "kept without "
                "EVENFLOW_REQUESTS_BUCKET; nothing was generated",
                code="message_too_large",
            )
        await self._store.put(entry.response_id, entry.text)
        return replace(entry, text="", text_name=entry.response_id, text_bytes=size)

    async def whole(self, entry: LedgerEntry) -> LedgerEntry | None:
        """The entry with its text. None when the text is no longer kept.

        Raises:
            StoreUnavailable: the text can't be read now.
        """
        if entry.text_name is None:
            return entry
        text = await self._store.get(entry.text_name) if self._store is not None else None
        return None if text is None else replace(entry, text=text)

    async def delete(self, entry: LedgerEntry) -> None:
        """Delete the large text of an entry, if it has one.

        Raises:
            StoreUnavailable: it can't be deleted now.
        """
        if entry.text_name is not None and self._store is not None:
            await self._store.delete(entry.text_name)


_RETRY_AFTER_MS = 2_000
# Stored messages have to expire first.
_FULL_RETRY_AFTER_MS = 30_000
_CALLER_DIGITS = 12


class MessageLedger:
    """Stores accepted messages, and begins the recording of their responses.

    Of the two stores it writes the session store. `ResponseRecorder` writes the response store.

    Args:
        keeper: knows the name of this node.
        texts: keeps large texts.
    """

    def __init__(
        self,
        context: NodeContext,
        sessions: SessionStore,
        recorder: ResponseRecorder,
        keeper: LeaseKeeper,
        texts: MessageTexts,
    ) -> None:
        self._sessions = sessions
        self._recorder = recorder
        self._keeper = keeper
        self._wall_time = context.wall_time
        self._rejections = context.metrics.counter(catalogue.STORE_REFUSED)
        self._texts = texts
        self._reachable = _Reachable(self._rejection)

    async def load(self, channel: Channel) -> StoredConversation:
        """The messages of a session, whichever nodes accepted them.

        Raises:
            Overloaded: the store can't be read.
        """
        with self._reachable:
            return await self._sessions.load(channel, self._wall_time())

    async def text_of(self, channel: Channel, response_id: str) -> str | None:
        """The text of the message that has this response. None when it is no longer kept.

        Raises:
            Overloaded: the store can't be read.
        """
        stored = await self.load(channel)
        entry = next((each for each in stored.messages if each.response_id == response_id), None)
        with self._reachable:
            whole = await self._texts.whole(entry) if entry is not None else None
        return whole.text or None if whole is not None else None

    async def has_messages(self, channel: Channel) -> bool:
        """Whether a session has messages, and was not ended. It reads no message.

        Raises:
            Overloaded: the store can't be read.
        """
        with self._reachable:
            head = await self._sessions.head(channel, self._wall_time())
        return head.last_message_id is not None and not head.ended

    async def ends(self, channel: Channel, message_id: str | None = None) -> StoredConversation:
        """A session with only its last message, and the message of this id.

        That is enough for requests that bring their conversation, whose texts may be megabytes.

        Raises:
            Overloaded: the store can't be read.
        """
        now = self._wall_time()
        with self._reachable:
            head = await self._sessions.head(channel, now)
            if head.last_message_id is None:
                return head
            wanted = dict.fromkeys(filter(None, (message_id, head.last_message_id)))
            found = [await self._sessions.message(channel, name, now) for name in wanted]
        return replace(head, messages=[entry for entry in found if entry is not None])

    @property
    def owner(self) -> str:
        """The name under which this node accepts messages."""
        return self._keeper.owner

    @property
    def in_force(self) -> bool:
        """Whether no other node may take over what this one owns."""
        return self._keeper.in_force

    def writes(self, lease: Lease) -> bool:
        """Whether a response under this lease is still being stored."""
        return self._recorder.writes(lease)

    def record_rest(
        self, stream: ResponseStream, lease: Lease, written: int, kind: MessageKind
    ) -> None:
        """Write the rest of a response, whose first `written` entries are stored."""
        self._recorder.record(stream, lease, written, kind)

    async def accept(self, message: IncomingMessage, stream: ResponseStream) -> None:
        """Store a message, and write its response as it grows.

        Raises:
            NotAccepted: another node has accepted this message, or another one in its place.
            TooLarge: there is no store for its large text.
            Overloaded: the store can't be written, is full, or is too far behind.
        """
        if self._recorder.behind:
            raise self._rejection("store_behind", "the response store is too far behind")
        entry = LedgerEntry(
            message.message_id,
            message.previous_message_id,
            message.text,
            stream.response_id,
            self.owner,
            replaces=message.replaces,
            terms=message.terms.to_text(),
            kind=message.kind.to_text(),
            parent_message_id=message.parent_message_id,
            sender_digest=_stored_caller(message),
        )
        lease = await self._write(message.channel, entry)
        self._recorder.record(stream, lease, kind=message.kind)

    async def _write(self, channel: Channel, entry: LedgerEntry) -> Lease:
        with self._reachable:
            entry = await self._texts.put(entry)
            try:
                return await self._sessions.accept(channel, entry, self._wall_time())
            except (NotAccepted, StoreFull) as rejected:
                with suppress(StoreUnavailable):  # else it expires
                    await self._texts.delete(entry)
                if isinstance(rejected, NotAccepted):
                    raise
                what = "the store has no room for more of this sender until something expires"
                raise self._rejection("store_full", what, _FULL_RETRY_AFTER_MS) from rejected

    def _rejection(self, code: str, what: str, retry_after_ms: int = _RETRY_AFTER_MS) -> Overloaded:
        self._rejections.value += 1
        return Overloaded(
            f"{what}; the message was not accepted, running answers go on, send it again later",
            code=code,
            retry_after_ms=retry_after_ms,
        )


class _Reachable:
    """Rejects a message while the store cannot be reached by the block.

    It has no state, so that it is made once.
    """

    def __init__(self, rejection: Callable[[str, str], Overloaded]) -> None:
        self._rejection = rejection

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, StoreUnavailable):
            raise self._rejection(
                "store_unavailable", "the store of messages cannot be reached"
            ) from error


def _stored_caller(message: IncomingMessage) -> str:
    """The caller of a message as it is stored: digests of its address and its session or user."""
    address, member = message.line.address, message.line.session or message.terms.user
    return f"{_digest(address)}:{_digest(member)}" if address else ""


def _digest(name: str) -> str:
    """A digest of a name, so that stored messages do not show it. Empty: there is no name."""
    data = name.encode("utf-8", "surrogateescape")
    return hashlib.sha256(data).hexdigest()[:_CALLER_DIGITS] if name else ""
