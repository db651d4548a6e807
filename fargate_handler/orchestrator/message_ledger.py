"""The ledger: accepted messages on record before anything is answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fargate_handler.node_context import NodeContext
from fargate_handler.orchestrator.leases import LeaseKeeper
from fargate_handler.orchestrator.response_recorder import ResponseRecorder
from fargate_handler.orchestrator.whole_request import IngestEvent
from stream_core.log.response_stream import ResponseStream
from stream_core.metrics import metric_catalogue as catalogue
from stream_core.policy.channel import Channel
from stream_core.ports.response_store import Lease, StoreUnavailable
from stream_core.ports.session_store import LargeTexts, LedgerEntry, SessionStore, StoredConversation
from stream_core.protocol.errors import Overloaded, TooLarge

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


_RETRY_AFTER_MS = 2_000


class MessageLedger:
    """The session store and the recorder, as the orchestrator uses them.

    Args:
        keeper: of this task's name.
        texts: where the texts are kept.
    """

    def __init__(
        self,
        context: NodeContext,
        sessions: SessionStore,
        recorder: ResponseRecorder,
        keeper: LeaseKeeper,
        texts: KeptTexts,
    ) -> None:
        self._sessions = sessions
        self._recorder = recorder
        self._keeper = keeper
        self._wall_time = context.wall_time
        self._refused = context.metrics.counter(catalogue.STORE_REFUSED)
        self._texts = texts

    async def load(self, channel: Channel) -> StoredConversation:
        """What all tasks know of a session.

        Raises:
            Overloaded: the store can't be read.
        """
        with self._reachable():
            return await self._sessions.load(channel, self._wall_time())

    @property
    def owner(self) -> str:
        """The name under which this task puts messages on record."""
        return self._keeper.owner

    @property
    def in_force(self) -> bool:
        """Whether what this task answers is its own."""
        return self._keeper.in_force

    def writes(self, lease: Lease) -> bool:
        """Whether a response is still on its way to the store under this lease."""
        return self._recorder.writes(lease)

    def go_on(self, stream: ResponseStream, lease: Lease, written: int) -> None:
        """Have the rest of a response written, of which `written` entries are on record."""
        self._recorder.record(stream, lease, written)

    async def accept(self, event: IngestEvent, stream: ResponseStream) -> None:
        """Put the message on record, and have its response written as it grows.

        Raises:
            NotAccepted: another task has accepted this message, or another one in its place.
            TooLarge: there is no place for its text.
            Overloaded: the store can't be written, or is too far behind.
        """
        if self._recorder.behind:
            raise self._refusal("store_behind", "the response buffer is too far behind")
        entry = LedgerEntry(
            event.message_id,
            event.previous_message_id,
            event.text,
            stream.response_id,
            self.owner,
            replaces=event.replaces,
            terms=event.terms.to_text(),
            kind=event.kind.to_text(),
        )
        with self._reachable():
            entry = await self._texts.put(entry)
            lease = await self._sessions.accept(event.channel, entry, self._wall_time())
        self._recorder.record(stream, lease)

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except StoreUnavailable as error:
            raise self._refusal("store_unavailable", "the store of messages cannot be reached") from error

    def _refusal(self, code: str, what: str) -> Overloaded:
        self._refused.value += 1
        return Overloaded(
            f"{what}; the message was not accepted, running answers go on, send it again later",
            code=code,
            retry_after_ms=_RETRY_AFTER_MS,
        )
