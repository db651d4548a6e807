"""Publishes the readers of a response at all nodes to the clients that listen at this one."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager

from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.responses import Responses
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.delivery.presence import (
    Presence,
    PresenceListener,
    Present,
    PresentReader,
    merge_present,
)
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.protocols.evenflow.messages import PresenceNotice
from evenflow.stream_core.protocols.evenflow.peer_log import PeerLog, PeerResponse, PeerUnreachable
from evenflow.stream_core.protocols.evenflow.session_init import seconds_of

_logger = logging.getLogger(__name__)


class _WatchedResponse:
    """A response with clients here that listen for its readers.

    Attributes:
        presence: publishes the readers at all nodes.
        on_other_nodes: the readers at other nodes, by address. The owner reports all readers.
        peer_streams: the streams from other nodes, by their addresses.
    """

    def __init__(self, context: NodeContext, stream: ResponseStream) -> None:
        self.stream = stream
        self.on_other_nodes: dict[str, Present] = {}
        self.peer_streams: dict[str, asyncio.Task[None]] = {}
        self._here = Present((), 0)
        self.presence = Presence(
            stream.response_id,
            self._now,
            context.clock,
            context.monotonic,
            context.limits.presence_listeners_per_response,
        )

    def present(self, _response_id: str, present: Present) -> None:
        """The readers of this node's copy have changed."""
        self._here = present
        self.presence.changed()

    def presence_lost(self, _response_id: str) -> None:
        """This node's copy has ended."""
        self.presence.lose()

    def peer_reported(self, address: str, present: Present | None) -> None:
        """Another node has reported its readers. None: its stream has ended."""
        if present is not None:
            self.on_other_nodes[address] = present
        else:
            self.on_other_nodes.pop(address, None)
        self.presence.changed()

    def _now(self) -> Present:
        if self.stream.via != "owner" and self.on_other_nodes:
            return merge_present(self.on_other_nodes.values())  # the owner knows of those here
        return merge_present([self._here, *self.on_other_nodes.values()])


class ClusterPresence:
    """Tells clients and tasks who reads responses. Where nobody asks, nothing is asked or sent.

    The task that owns a response asks those that copy it, and the others ask the owner.

    Args:
        responses: this node's.
        owner_at: where the owner of a copy is. None if that isn't known.
    """

    def __init__(
        self,
        context: NodeContext,
        peers: PeerLog,
        responses: Responses,
        owner_at: Callable[[ResponseStream], str | None],
    ) -> None:
        self._context = context
        self._peers = peers
        self._responses = responses
        self._owner_at = owner_at
        self._watched: dict[ResponseStream, _WatchedResponse] = {}
        # By response: the addresses of the tasks that copy it from this one, with how often.
        self._copied_at: dict[str, Counter[str]] = {}
        self._background = Background()

    def __contains__(self, stream: object) -> bool:
        """Whether anybody is told who reads a copy's response."""
        return stream in self._watched

    def listen(
        self,
        stream: ResponseStream,
        listener: PresenceListener,
        *,
        for_task: bool = False,
        shared: bool = False,
    ) -> None:
        """Tell a listener who reads a response, now and on each change.

        Args:
            for_task: whether it is another node, for which there is always room.
            shared: whether it listens with a share.

        Raises:
            RateLimited: as many listen as may.
        """
        watched = self._watched.get(stream)
        if watched is None:
            watched = self._watched[stream] = _WatchedResponse(self._context, stream)
            stream.readers.listen(stream.response_id, watched)
            self._hear(watched)
        watched.presence.listen(listener, bounded=not for_task, shared=shared)

    def leave(self, stream: ResponseStream, listener: PresenceListener) -> None:
        """Tell a listener nothing more. A second call changes nothing."""
        watched = self._watched.get(stream)
        if watched is not None:
            watched.presence.leave(listener)
            self._forget_unheard(watched)

    @contextmanager
    def copied(self, response_id: str, address: str | None) -> Iterator[None]:
        """The task at an address copies a response from this one, for so long."""
        if address is None:
            yield
            return
        copied_at = self._copied_at.setdefault(response_id, Counter())
        copied_at[address] += 1
        try:
            yield
        finally:
            copied_at -= Counter([address])
            if not copied_at:
                self._copied_at.pop(response_id, None)

    def sweep(self) -> None:
        """Ask tasks that have come, and those again that didn't answer. Called once a second."""
        for watched in tuple(self._watched.values()):
            if not self._forget_unheard(watched):
                self._hear(watched)

    async def aclose(self) -> None:
        """Ask no more."""
        await self._background.aclose()

    def _forget_unheard(self, watched: _WatchedResponse) -> bool:
        stream = watched.stream
        unheard = not watched.presence.has_listeners
        if unheard or self._responses.held(stream.response_id) is not stream:
            del self._watched[stream]
            for peer_streams in watched.peer_streams.values():
                peer_streams.cancel()
            if stream.readers.presence is not None:
                stream.readers.presence.leave(watched)
            return True
        return False

    def _hear(self, watched: _WatchedResponse) -> None:
        """Listen to those that there are to be peer_reported, and to no others."""
        peer_streams, wanted = watched.peer_streams, self._to_be_heard(watched)
        for address in peer_streams.keys() - wanted:
            peer_streams.pop(address).cancel()
        for address in wanted - peer_streams.keys():
            peer_streams[address] = self._background.run(self._hear_task(watched, address))

    def _to_be_heard(self, watched: _WatchedResponse) -> set[str]:
        stream = watched.stream
        if stream.log.closed:
            return set()
        if stream.via == "owner":
            # One that copies again after a silence has readers all the time.
            return {*self._copied_at.get(stream.response_id, ()), *watched.peer_streams}
        owner_at = self._owner_at(stream)
        return set() if owner_at is None else {owner_at}

    async def _hear_task(self, watched: _WatchedResponse, address: str) -> None:
        stream = watched.stream
        there = PeerResponse(address, stream.channel, stream.response_id)
        try:
            async with aclosing(
                self._peers.presence(there, of_all=stream.via != "owner")
            ) as notices:
                async for notice in notices:
                    watched.peer_reported(address, self._present(notice))
        except PeerUnreachable as error:
            _logger.debug("who reads %s at %s is not known: %s", stream.response_id, address, error)
        finally:
            watched.peer_reported(address, None)
            if watched.peer_streams.get(address) is asyncio.current_task():
                del watched.peer_streams[address]

    def _present(self, notice: PresenceNotice) -> Present:
        began = self._context.wall_time() - self._context.monotonic()
        readers = tuple(
            PresentReader(each.user, each.transport, seconds_of(each.since) - began)
            for each in notice.readers
        )
        return Present(readers, notice.count)
