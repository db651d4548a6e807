"""The line of a reader: one for each time that a client reads an answer from a node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.records.event_record import EventRecord, milliseconds


class LeaveReason(StrEnum):
    """The reason why a client stopped reading an answer."""

    ENDED = "ended"  # it has everything
    ANSWERED = "answered"  # it was one call, answered before the end; the next one may come
    GONE = "gone"  # it closed, resumed elsewhere, or its connection broke
    MOVED = "moved"  # this node's copy ended, and it reads another one
    TOO_SLOW = "too_slow"  # it was disconnected
    FAILED = "failed"  # the rest can't be delivered


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRecord(EventRecord):
    """A client has stopped reading an answer."""

    EVENT: ClassVar[str] = "reader"
    MOST_PER_SECOND: ClassVar[int | None] = 500

    tenant: Annotated[str, "the tenant"]
    agent: Annotated[str, "the agent"]
    session: Annotated[str, "16 digits of the SHA-256 of the session's id"]
    message_id: Annotated[str, "the message"]
    response_id: Annotated[str, "the answer"]
    protocol: Annotated[
        str, "a subprotocol, or the name of an API; `peer`: another node, for its readers"
    ]
    transport: Annotated[str, "websocket, sse, poll (a reader each), http (one object)"]
    transport_before: Annotated[
        str | None, "of the reader before it, where it was another one: it has changed"
    ] = None
    via: Annotated[str, "where the node had the answer from: owner, peer or store"]
    left: Annotated[
        str,
        "why it reads no more: ended, answered (one call, before the end), gone, moved, too_slow "
        "or failed",
    ]
    first_index: Annotated[int, "where it began"]
    entries_delivered: Annotated[int, "entries that it was given"]
    entries_missed: Annotated[int, "entries that were there, and that it was not given"]
    entries_acknowledged: Annotated[
        int | None, "entries that clients of the answer have acknowledged"
    ] = None
    lags: Annotated[int, "how often it lagged too far"] = 0
    duration_ms: Annotated[float, "for how long it read"]

    def __str__(self) -> str:
        return (
            f"reader of {self.response_id} over {self.transport} ({self.protocol}) {self.left}: "
            f"{self.entries_delivered} deltas in {self.duration_ms / 1000:.2f} s"
        )


class ReaderFigures:
    """Measures of one reader while it reads.

    Args:
        next_index: its first index.
        now: seconds.

    Attributes:
        transport: how it reads.
        lags: the number of times that it lagged too far.
        too_slow: whether it was disconnected.
    """

    __slots__ = (
        "_before",
        "_began_at",
        "_first_index",
        "_protocol",
        "lags",
        "too_slow",
        "transport",
    )

    def __init__(
        self, stream: ResponseStream, protocol: str, transport: str, next_index: int, now: float
    ) -> None:
        self._before = stream.figures.record_reader(protocol, transport)
        self.lags = 0
        self.too_slow = False
        self._protocol = protocol
        self.transport = transport
        self._first_index = next_index
        self._began_at = now

    def answered_record(self, stream: ResponseStream, next_index: int, now: float) -> ReaderRecord:
        """The line of one call that was answered with the entries before `next_index`."""
        reason = LeaveReason.ENDED if _has_all(stream, next_index) else LeaveReason.ANSWERED
        return self.left_record(stream, next_index, now, reason)

    def left_record(
        self, stream: ResponseStream, next_index: int, now: float, reason: LeaveReason | None = None
    ) -> ReaderRecord:
        """The line of a reader that leaves with the entries before `next_index`.

        Args:
            reason: None: it has everything, or as the figures say.
        """
        figures, log, channel = stream.figures, stream.log, stream.channel
        figures.delivered = max(figures.delivered, next_index)
        if reason is None:
            reason = LeaveReason.GONE
            if self.too_slow:
                reason = LeaveReason.TOO_SLOW
            elif _has_all(stream, next_index):
                reason = LeaveReason.ENDED
        return ReaderRecord(
            tenant=channel.tenant,
            agent=channel.agent,
            session=channel.session_digest,
            message_id=stream.message_id,
            response_id=stream.response_id,
            protocol=self._protocol,
            transport=self.transport,
            transport_before=self._before,
            via=stream.via,
            left=reason.value,
            first_index=self._first_index,
            entries_delivered=next_index - self._first_index,
            entries_missed=log.next_index - next_index,
            entries_acknowledged=stream.acknowledged + 1,
            lags=self.lags,
            duration_ms=milliseconds(now - self._began_at),
        )


def _has_all(stream: ResponseStream, next_index: int) -> bool:
    return stream.log.closed and next_index >= stream.log.next_index
