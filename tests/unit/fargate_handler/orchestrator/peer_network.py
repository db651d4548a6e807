"""Tasks that reach each other without sockets: what the owner's SSE endpoint would send, as the
port has it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress

from evenflow.fargate_handler.gateway.connections.resumption import WakingReader
from evenflow.fargate_handler.orchestrator.orchestrator import Orchestrator
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.presence import Present
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Part, Restart
from evenflow.stream_core.log.response_log import REPLACES_ALL, Cursor, ResponseState, resume_point
from evenflow.stream_core.protocols.evenflow.messages import (
    PresenceNotice,
    PresentClient,
    ResponseDelta,
    ResponsePart,
)
from evenflow.stream_core.protocols.evenflow.part_objects import part_object
from evenflow.stream_core.protocols.evenflow.peer_log import (
    PeerConnectionLost,
    PeerEvent,
    PeerResponse,
    PeerUnreachable,
)
from evenflow.stream_core.protocols.evenflow.response_frames import (
    queued_frame,
    restart_frame,
    terminal_frame,
)
from evenflow.stream_core.protocols.evenflow.session_init import iso_time

_SILENCE_SECONDS = 2.5
_HEARTBEAT_SECONDS = 1.0


class _CopyingReader(WakingReader):
    """Is woken by the place in the queue, too."""

    __slots__ = ("place",)

    def __init__(self, stream: ResponseStream) -> None:
        super().__init__(stream, "http")
        self.place = stream.place

    def on_queued(self, place: QueuePlace) -> None:
        """See `Reader.on_queued`."""
        self.place = place
        self._news.set()

    def told_place(self) -> list[PeerEvent]:
        """The place, if it was not taken yet."""
        place, self.place = self.place, None
        return [] if place is None else [queued_frame(self.stream, place)]


class _Hearing:
    """A listener at another task."""

    def __init__(self) -> None:
        self.lost = False
        self.woken = asyncio.Event()
        self._newest: Present | None = None

    def present(self, _response_id: str, present: Present) -> None:
        """See `Listener`."""
        self._newest = present
        self.woken.set()

    def presence_lost(self, _response_id: str) -> None:
        """See `Listener`."""
        self.lost = True
        self.woken.set()

    async def news(self) -> Present | None:
        """The newest, if there is one within a heartbeat."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEARTBEAT_SECONDS):
                await self.woken.wait()
        self.woken.clear()
        newest, self._newest = self._newest, None
        return newest


def _notice(response: PeerResponse, present: Present) -> PresenceNotice:
    """As it is told, by tasks whose clocks began with the epoch."""
    return PresenceNotice(
        type="presence",
        session_id=response.channel.session,
        response_id=response.response_id,
        readers=[
            PresentClient(user=user, transport=transport, since=iso_time(since))
            for user, transport, since in present.readers
        ],
        count=present.count,
    )


class PeerNetwork:
    """See `evenflow.stream_core.protocols.evenflow.peer_log.PeerLog`."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        """How often each address was asked for events."""
        self.asked_for_presence: Counter[str] = Counter()
        self._orchestrators: dict[str, Orchestrator] = {}
        self._unreachable: set[str] = set()
        self._open: dict[_CopyingReader, str] = {}
        self._hearing: dict[_Hearing, str] = {}

    def add(self, address: str, orchestrator: Orchestrator) -> None:
        """There is one more task."""
        self._orchestrators[address] = orchestrator

    def cut(self, address: str) -> None:
        """From now on nobody reaches it, and what is open breaks."""
        self._unreachable.add(address)
        for reader, its_address in self._open.items():
            if its_address == address:
                reader.deliver(0.0, None)
        for hearing, its_address in self._hearing.items():
            if its_address == address:
                hearing.woken.set()

    def mend(self, address: str) -> None:
        """It can be reached again."""
        self._unreachable.discard(address)

    @property
    def told_of_presence(self) -> int:
        """How many streams are open between tasks that tell who reads."""
        return len(self._hearing)

    @property
    def followers(self) -> int:
        """How many streams are open between tasks."""
        return len(self._open)

    async def events(
        self, response: PeerResponse, after: int
    ) -> AsyncGenerator[list[PeerEvent], None]:
        """See the port."""
        self.asked[response.address] += 1
        stream = await self._owned(response)
        point = resume_point(stream.log, after, response.epoch)
        if point is None:
            raise PeerUnreachable("the owner answered 400")
        waiting: list[PeerEvent] = []
        if point.restarted is not None:
            waiting.append(restart_frame(stream, point.restarted, REPLACES_ALL))
        cursor = Cursor(stream.log, point.next_index, most=0)
        reader = _CopyingReader(stream)
        reader.attach()
        self._open[reader] = response.address
        presence = self._orchestrators[response.address].presence
        try:
            with presence.replicated(response.response_id, response.reader_at):
                while response.address not in self._unreachable:
                    waiting += _taken(stream, cursor) + reader.told_place()
                    yield waiting
                    if cursor.at_end or reader.left_behind:
                        break
                    if not await reader.wait(_SILENCE_SECONDS):
                        raise PeerUnreachable("the owner says nothing")
                    waiting = []
        finally:
            del self._open[reader]
            reader.detach()
        if response.address in self._unreachable:
            raise PeerConnectionLost("it broke")
        raise PeerUnreachable("the owner ended the stream before the response")

    async def presence(
        self, response: PeerResponse, *, of_all: bool
    ) -> AsyncGenerator[PresenceNotice, None]:
        """See the port."""
        if response.address in self._unreachable:
            raise PeerUnreachable("no connection")
        orchestrator = self._orchestrators[response.address]
        stream = orchestrator.responses.of_session(response.response_id, response.channel)
        if stream is None or (of_all and not stream.is_owned_here):
            raise PeerUnreachable("the task answered 404 or 503")
        self.asked_for_presence[response.address] += 1
        hearing = _Hearing()
        self._hearing[hearing] = response.address
        if of_all:
            orchestrator.presence.listen(stream, hearing, for_node=True)
        else:
            stream.readers.listen(stream.response_id, hearing)
        try:
            while not (hearing.lost or stream.log.closed):
                if response.address in self._unreachable:
                    raise PeerConnectionLost("it broke")
                if (present := await hearing.news()) is not None:
                    yield _notice(response, present)
                elif orchestrator.responses.of_any_session(response.response_id) is not stream:
                    break
        finally:
            del self._hearing[hearing]
            orchestrator.presence.leave(stream, hearing)
            if stream.readers.presence is not None:
                stream.readers.presence.leave(hearing)
        raise PeerUnreachable("the task tells no more who reads the response")

    async def cancel(self, response: PeerResponse) -> ResponseState:
        """See the port."""
        stream = await self._owned(response)
        return await self._orchestrators[response.address].cancel(stream)

    async def take_result(self, response: PeerResponse, call_id: str, text: str) -> None:
        """See the port."""
        stream = await self._owned(response)
        await self._orchestrators[response.address].take_result(stream, call_id, text)

    async def _owned(self, response: PeerResponse) -> ResponseStream:
        if response.address in self._unreachable:
            raise PeerUnreachable("no connection")
        try:
            stream = await self._orchestrators[response.address].find(
                response.response_id, response.channel, check_ended=False
            )
        except EvenflowError as error:
            raise PeerUnreachable(f"the owner answered {error.status}") from error
        if not stream.is_owned_here:
            raise PeerUnreachable("it is not the owner")
        return stream


def _taken(stream: ResponseStream, cursor: Cursor) -> list[PeerEvent]:
    """Every new entry as an event, and the response's end."""
    events: list[PeerEvent] = []
    while (taken := cursor.next_entry()) is not None:
        if isinstance(taken, Restart):
            events.append(restart_frame(stream, taken, cursor.last))
        elif isinstance(taken, Part):
            events.append(
                ResponsePart(
                    type="chat.response.event",
                    session_id=stream.channel.session,
                    response_id=stream.response_id,
                    index=cursor.last,
                    **part_object(taken),
                )
            )
        else:
            events.append(
                ResponseDelta(
                    type="chat.response.delta",
                    session_id=stream.channel.session,
                    response_id=stream.response_id,
                    delta=taken,
                    index=cursor.last,
                )
            )
    if cursor.at_end:
        events.append(terminal_frame(stream))
    return events
