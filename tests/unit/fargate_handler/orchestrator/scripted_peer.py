"""Another task that says only what a test tells it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from evenflow.stream_core.log.entries import Part
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.evenflow.messages import (
    PresenceNotice,
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponsePart,
    ResponseQueued,
    ResponseRestarted,
)
from evenflow.stream_core.protocols.evenflow.part_objects import part_object
from evenflow.stream_core.protocols.evenflow.peer_log import (
    PeerEvent,
    PeerResponse,
    PeerUnreachable,
)

_OF_RESPONSE = {"session_id": "s", "response_id": "r"}


class ScriptedPeer:
    """See `evenflow.stream_core.protocols.evenflow.peer_log.PeerLog`."""

    def __init__(self) -> None:
        self.asked: list[tuple[PeerResponse, int]] = []
        """Every call for events: of what, and after which index."""
        self.open = 0
        self.cancelled: list[PeerResponse] = []
        self.cancel_answer: ResponseState | PeerUnreachable = ResponseState.CANCELLED
        self.reachable = True
        self._said: asyncio.Queue[list[PeerEvent] | Exception] = asyncio.Queue()

    def say(self, *events: PeerEvent) -> None:
        """These come at once, to whoever follows or the next one that does."""
        self._said.put_nowait(list(events))

    def break_off(self, error: Exception | None = None) -> None:
        """The connection ends."""
        self._said.put_nowait(error or PeerUnreachable("it broke"))

    async def events(
        self, response: PeerResponse, after: int
    ) -> AsyncGenerator[list[PeerEvent], None]:
        """See the port."""
        self.asked.append((response, after))
        if not self.reachable:
            raise PeerUnreachable("no connection")
        self.open += 1
        try:
            while True:
                said = await self._said.get()
                if isinstance(said, Exception):
                    raise said
                yield said
        finally:
            self.open -= 1

    async def presence(
        self, response: PeerResponse, *, of_all: bool
    ) -> AsyncGenerator[PresenceNotice, None]:
        """See the port."""
        raise PeerUnreachable("it doesn't tell that")
        yield  # what makes it a generator

    async def cancel(self, response: PeerResponse) -> ResponseState:
        """See the port."""
        self.cancelled.append(response)
        if isinstance(self.cancel_answer, PeerUnreachable):
            raise self.cancel_answer
        return self.cancel_answer

    async def take_result(self, response: PeerResponse, call_id: str, text: str) -> None:
        """See the port."""
        raise PeerUnreachable("it takes nothing")


def delta(index: int, text: str) -> ResponseDelta:
    return ResponseDelta(type="chat.response.delta", **_OF_RESPONSE, delta=text, index=index)


def event(index: int, part: Part) -> ResponsePart:
    return ResponsePart(
        type="chat.response.event", **_OF_RESPONSE, index=index, **part_object(part)
    )


def queued(position: int) -> ResponseQueued:
    return ResponseQueued(type="chat.response.queued", **_OF_RESPONSE, position=position)


def restarted(
    index: int, from_index: int = -1, attempt: int = 2, epoch: int = 1
) -> ResponseRestarted:
    return ResponseRestarted(
        type="chat.response.restarted",
        **_OF_RESPONSE,
        from_index=from_index,
        attempt=attempt,
        index=index,
        epoch=epoch,
    )


def completed(last_index: int, finish_reason: str = "stop") -> ResponseCompleted:
    return ResponseCompleted(
        type="chat.response.completed",
        **_OF_RESPONSE,
        message_id="m1",
        finish_reason=finish_reason,
        last_index=last_index,
        usage=None,
        degraded=False,
    )


def failed(last_index: int, code: str = "upstream_failed") -> ResponseFailed:
    return ResponseFailed(
        type="chat.response.error",
        **_OF_RESPONSE,
        message_id="m1",
        last_index=last_index,
        error={"code": code},
    )
