"""Publishes the readers of a response on all nodes to the clients that listen on this one."""

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
        presence: publishes the readers on all nodes.
        on_other_nodes: the readers on other nodes, by address. The owner reports all readers.
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
        """Publish the changed readers on this node."""
        self._here = present
        self.presence.changed()

    def presence_lost(self, _response_id: str) -> None:
        """End the listeners: the response or replica on this node is gone."""
        self.presence.lose()

    def peer_reported(self, address: str, present: Present | None) -> None:
        """Publish the readers that another node reports. None: its stream has ended."""
        if present is not None:
            self.on_other_nodes[address] = present
        else:
            self.on_other_nodes.pop(address, None)
        self.presence.changed()

    def _now(self) -> Present:
        if not self.stream.is_owned_here and self.on_other_nodes:
            return merge_present(self.on_other_nodes.values())  # the owner's report has those here
        return merge_present([self._here, *self.on_other_nodes.values()])


class ClusterPresence:
    """Publishes the readers of responses to clients and nodes. Without a listener nothing is sent.

    The owner of a response subscribes to the nodes with replicas, and those subscribe to the owner.

    Args:
        responses: this node's.
        owner_at: the address of the owner of a replica. None if it is not known.
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
        # By response: the addresses of the nodes that replicate it from this one, counted.
        self._replicated_at: dict[str, Counter[str]] = {}
        self._background = Background()

    def __contains__(self, stream: object) -> bool:
        """Whether any listener is told of the readers of a response."""
        return stream in self._watched

    def listen(
        self,
        stream: ResponseStream,
        listener: PresenceListener,
        *,
        for_node: bool = False,
        shared: bool = False,
    ) -> None:
        """Publish the readers of a response to a listener, now and on each change.

        Args:
            for_node: whether the listener is another node, for which there is always room.
            shared: whether it listens with a share.

        Raises:
            RateLimited: the response has as many listeners as allowed.
        """
        watched = self._watched.get(stream)
        if watched is None:
            watched = self._watched[stream] = _WatchedResponse(self._context, stream)
            stream.readers.listen(stream.response_id, watched)
            self._subscribe(watched)
        watched.presence.listen(listener, bounded=not for_node, shared=shared)

    def leave(self, stream: ResponseStream, listener: PresenceListener) -> None:
        """Remove a listener. A second call changes nothing."""
        watched = self._watched.get(stream)
        if watched is not None:
            watched.presence.leave(listener)
            self._forget_without_listeners(watched)

    @contextmanager
    def replicated(self, response_id: str, address: str | None) -> Iterator[None]:
        """Record that the node at an address replicates a response, for the time of the block."""
        if address is None:
            yield
            return
        replicated_at = self._replicated_at.setdefault(response_id, Counter())
        replicated_at[address] += 1
        try:
            yield
        finally:
            replicated_at -= Counter([address])
            if not replicated_at:
                self._replicated_at.pop(response_id, None)

    def sweep(self) -> None:
        """Subscribe to new nodes, and to failed ones again. Called once a second."""
        for watched in tuple(self._watched.values()):
            if not self._forget_without_listeners(watched):
                self._subscribe(watched)

    async def aclose(self) -> None:
        """End all subscriptions."""
        await self._background.aclose()

    def _forget_without_listeners(self, watched: _WatchedResponse) -> bool:
        stream = watched.stream
        is_unheard = not watched.presence.has_listeners
        if is_unheard or self._responses.of_any_session(stream.response_id) is not stream:
            del self._watched[stream]
            for peer_stream in watched.peer_streams.values():
                peer_stream.cancel()
            if stream.readers.presence is not None:
                stream.readers.presence.leave(watched)
            return True
        return False

    def _subscribe(self, watched: _WatchedResponse) -> None:
        """Subscribe to the nodes with readers of a response, and to no others."""
        peer_streams, wanted = watched.peer_streams, self._wanted_nodes(watched)
        for address in peer_streams.keys() - wanted:
            peer_streams.pop(address).cancel()
        for address in wanted - peer_streams.keys():
            peer_streams[address] = self._background.run(self._subscribe_to_node(watched, address))

    def _wanted_nodes(self, watched: _WatchedResponse) -> set[str]:
        stream = watched.stream
        if stream.log.closed:
            return set()
        if stream.is_owned_here:
            # A node that replicates again after a silence has readers all the time.
            return {*self._replicated_at.get(stream.response_id, ()), *watched.peer_streams}
        owner_at = self._owner_at(stream)
        return set() if owner_at is None else {owner_at}

    async def _subscribe_to_node(self, watched: _WatchedResponse, address: str) -> None:
        stream = watched.stream
        there = PeerResponse(address, stream.channel, stream.response_id)
        try:
            async with aclosing(
                self._peers.presence(there, of_all=not stream.is_owned_here)
            ) as notices:
                async for notice in notices:
                    watched.peer_reported(address, self._present(notice))
        except PeerUnreachable as error:
            _logger.debug(
                "the readers of %s at %s are not known: %s", stream.response_id, address, error
            )
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
