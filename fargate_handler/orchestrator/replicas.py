"""Responses of other nodes with readers here. Each has one replica here, for all of its readers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterator
from contextlib import contextmanager

from evenflow.fargate_handler.orchestrator.leases import Ownership
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.response_replication import Diverged, ResponseReplication
from evenflow.fargate_handler.orchestrator.responses import Responses
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Overloaded, written_by_newer_version
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.peer_log import PeerResponse, PeerUnreachable
from evenflow.stream_core.stores.response_store import NewerForm, ResponseHead, StoreUnavailable

_logger = logging.getLogger(__name__)

# How long a response without a reader is still replicated. The next reader finds it again.
_UNREAD_SECONDS = 10.0
# Reads of the store by this node, for all replicas. One takes about 2 ms of the event loop.
_READS_PER_SECOND = 150.0
# How long a reader waits until the replica has caught up. Then it waits like any other reader.
_FILL_SECONDS = 5.0
_RETRY_AFTER_MS = 1_000

NewStream = Callable[[str, str, Channel], ResponseStream]


class Replicas:
    """Finds responses of other nodes, and keeps replicas of them up to date.

    Args:
        responses: this node's responses, to which replicas are added.
        new_stream: makes an empty response from its id, its message's id and the channel.
        take_over: tries to take a response over, by its id, when its owner's lease has run out.
            Returns whether this node owns it now.
        prepare: reads ahead what `take_over` will need, when the owner seems lost.
    """

    def __init__(
        self,
        context: NodeContext,
        ownership: Ownership,
        responses: Responses,
        *,
        new_stream: NewStream,
        take_over: Callable[[str], Awaitable[bool]],
        prepare: Callable[[str, Channel], Awaitable[None]],
    ) -> None:
        self._context = context
        self._ownership = ownership
        self._store = ownership.responses
        self._responses = responses
        self._new_stream = new_stream
        self._wall_time = context.wall_time
        self._take_over = take_over
        self._prepare = prepare
        self._replications: dict[ResponseStream, ResponseReplication] = {}
        self._runs: dict[ResponseStream, asyncio.Task[None]] = {}
        self._looking: dict[str, asyncio.Task[Channel | None]] = {}
        self._background = Background()
        context.metrics.gauge(catalogue.RESPONSES_FOLLOWED, lambda: len(self._replications))

    def __len__(self) -> int:
        return len(self._replications)

    async def find(self, response_id: str, channel: Channel) -> bool:
        """Find a response of this session, and make a replica of it. Returns whether there is one.

        Raises:
            Overloaded: the store can't be read, or a newer version writes the response.
        """
        with store_reached():
            return await asyncio.shield(self.begin_look_up(response_id)) == channel

    def begin_look_up(self, response_id: str) -> asyncio.Task[Channel | None]:
        """Begin to find a response. `find` joins this look-up: many readers cost one read."""
        looking = self._looking.get(response_id)
        if looking is None:
            looking = self._looking[response_id] = self._background.run(self._look(response_id))
            looking.add_done_callback(lambda _: self._looking.pop(response_id))
        return looking

    async def epoch_on_record(self, response_id: str) -> int:
        """The response's epoch in the store. 0 for an unknown response.

        Raises:
            Overloaded: the store can't be read.
        """
        with store_reached():
            head = await self._store.head(response_id, self._wall_time())
        return head.epoch if head is not None else 0

    async def cancel(self, stream: ResponseStream) -> ResponseState:
        """Ask the owner to cancel the response.

        Returns:
            The state of the response afterwards.

        Raises:
            Overloaded: the owner can't be reached.
        """
        with _owner_reached("cancel it again"):
            return await self._ownership.peers.cancel(await self._at_owner(stream))

    async def take_result(self, stream: ResponseStream, call_id: str, text: str) -> None:
        """Send the result of a call to the owner.

        Raises:
            Conflict: the call is not open.
            Overloaded: the owner can't be reached.
        """
        with _owner_reached("send the result again"):
            await self._ownership.peers.take_result(await self._at_owner(stream), call_id, text)

    async def _at_owner(self, stream: ResponseStream) -> PeerResponse:
        """The response at its owner.

        Raises:
            PeerUnreachable: the owner has left.
            StoreUnavailable: the store can't be read.
        """
        head = await self._store.head(stream.response_id, self._wall_time())
        lease = await self._store.lease(head.owner) if head is not None else None
        if lease is None or lease.address is None or lease.lost:
            raise PeerUnreachable("its owner has left")
        return PeerResponse(lease.address, stream.channel, stream.response_id)

    def owner_at(self, stream: ResponseStream) -> str | None:
        """The address at which the owner of a replica was last reached. None if it was not."""
        replication = self._replications.get(stream)
        return None if replication is None else replication.owner_at

    def sweep(self, now: float, wanted: Container[ResponseStream] = ()) -> None:
        """Drop the replicas without readers, except those that are `wanted`."""
        for stream, run in tuple(self._runs.items()):
            since = stream.readers.grace_begins_at
            is_unread = since is not None and now - since > _UNREAD_SECONDS
            unwanted = is_unread and stream not in wanted
            if unwanted or self._responses.of_any_session(stream.response_id) is not stream:
                self._responses.drop(stream)
                run.cancel()

    async def aclose(self) -> None:
        """Stop all replication."""
        await self._background.aclose()

    async def _look(self, response_id: str) -> Channel | None:
        """Make a replica of the response. Returns its channel, or None if there is no response."""
        head = await self._store.head(response_id, self._wall_time())
        if head is None:
            return None
        if not head.is_readable:
            raise NewerForm(f"response {response_id} is kept in form {head.form}")
        held = self._responses.of_any_session(response_id)
        if held is not None:
            return held.channel  # this node has taken it over meanwhile
        replication = self._begin(head)
        self._responses.add(replication.stream)
        run = self._background.run(self._run(replication))
        self._replications[replication.stream], self._runs[replication.stream] = replication, run
        filled = self._background.run(replication.filled.wait())
        await asyncio.wait(
            (run, filled), timeout=_FILL_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        filled.cancel()
        return replication.stream.channel

    def _pause(self) -> float:
        """Seconds between reads: as between writes without a reader, or more if there are many."""
        reading = sum(replication.reads_store for replication in self._replications.values())
        return max(
            self._context.limits.polled_store_interval_ms / 1000, reading / _READS_PER_SECOND
        )

    def _begin(self, head: ResponseHead) -> ResponseReplication:
        stream = self._new_stream(
            head.response_id, head.message_id, Channel(*head.channel.split(":"))
        )
        stream.set_source("store")
        return ResponseReplication(
            self._context,
            self._ownership,
            stream,
            head,
            pause=self._pause,
            take_over=self._take_over,
            prepare=self._prepare,
        )

    async def _run(self, replication: ResponseReplication) -> None:
        stream = replication.stream
        try:
            await replication.run()
        except (Diverged, NewerForm) as error:
            _logger.debug("response %s: this replica is dropped (%s)", stream.response_id, error)
        finally:
            del self._replications[stream], self._runs[stream]
            self._settle(stream)

    def _settle(self, stream: ResponseStream) -> None:
        """Release a replica that no longer grows: it is complete, or its readers need another."""
        if self._responses.of_any_session(stream.response_id) is not stream:
            return
        if stream.log.closed:
            self._responses.ended(stream)
        else:
            self._responses.drop(stream)
            stream.lose()


@contextmanager
def _owner_reached(what_to_do: str) -> Iterator[None]:
    """Translate an unreachable owner into an error for the client.

    Raises:
        Overloaded: the owner can't be reached.
    """
    try:
        yield
    except (PeerUnreachable, StoreUnavailable) as error:
        raise Overloaded(
            "the node that generates this response can't be reached now; nothing was changed, "
            f"{what_to_do}",
            code="owner_unreachable",
            retry_after_ms=_RETRY_AFTER_MS,
        ) from error


@contextmanager
def store_reached() -> Iterator[None]:
    """Translate an unreachable store into an error for the client.

    Raises:
        Overloaded: the store can't be reached, or a newer version writes the response.
    """
    try:
        yield
    except NewerForm as error:
        raise written_by_newer_version() from error
    except StoreUnavailable as error:
        raise Overloaded(
            "the store of responses cannot be reached; nothing was changed, ask again",
            code="store_unavailable",
            retry_after_ms=_RETRY_AFTER_MS,
        ) from error
