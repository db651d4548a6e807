"""Accepted messages on record: what makes an acceptance survive this task, and lets other tasks go on with a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fargate_handler.metrics import Counter
from fargate_handler.orchestrator.ingest_event import IngestEvent
from fargate_handler.orchestrator.kept_texts import KeptTexts
from fargate_handler.orchestrator.lease_keeper import LeaseKeeper
from fargate_handler.orchestrator.response_recorder import ResponseRecorder
from stream_core.channel import Channel
from stream_core.errors import Overloaded
from stream_core.response_store import Lease, StoreUnavailable
from stream_core.response_stream import ResponseStream
from stream_core.session_store import LedgerEntry, SessionStore, StoredConversation

_RETRY_AFTER_MS = 2_000


class MessageLedger:
    """The session store and the recorder, as the orchestrator uses them.

    Args:
        keeper: of this task's name.
        wall_time: seconds since the epoch.
        refused: counts messages that could not be put on record.
        texts: where the texts are kept.
    """

    def __init__(
        self,
        sessions: SessionStore,
        recorder: ResponseRecorder,
        keeper: LeaseKeeper,
        wall_time: Callable[[], float],
        refused: Counter,
        texts: KeptTexts,
    ) -> None:
        self._sessions = sessions
        self._recorder = recorder
        self._keeper = keeper
        self._wall_time = wall_time
        self._refused = refused
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
