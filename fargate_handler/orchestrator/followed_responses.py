"""The responses of other tasks that somebody reads here: each is followed once, however many read it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from fargate_handler.background import Background
from fargate_handler.node_context import NodeContext
from fargate_handler.orchestrator.following import Diverged, Following
from fargate_handler.orchestrator.leases import OtherTasks
from fargate_handler.orchestrator.responses import Responses
from stream_core.log.peer_log import PeerResponse, PeerUnreachable
from stream_core.log.response_log import ResponseState
from stream_core.log.response_stream import ResponseStream
from stream_core.metrics import metric_catalogue as catalogue
from stream_core.policy.channel import Channel
from stream_core.ports.response_store import ResponseHead, StoreUnavailable
from stream_core.protocol.errors import Overloaded

_logger = logging.getLogger(__name__)

# Without a reader for so long, a response is followed no more; whoever comes then finds it again.
_UNREAD_SECONDS = 10.0
# Of the store, by this task, for all that it follows there: a read costs the event loop about two milliseconds.
_READS_PER_SECOND = 150.0
# A reader waits so long for what there is; then it waits as one that has everything.
_FILL_SECONDS = 5.0
_RETRY_AFTER_MS = 1_000

NewStream = Callable[[str, str, Channel], ResponseStream]


class FollowedResponses:
    """Finds responses of other tasks.

    Args:
        responses: where the copies are held, among this task's own responses.
        new_stream: makes an empty one of a response's id, its message's id and the channel.
        take_over: called with a response's id when its owner's lease is no longer in force; whether this task owns it now.
    """

    def __init__(
        self,
        context: NodeContext,
        others: OtherTasks,
        responses: Responses,
        *,
        new_stream: NewStream,
        take_over: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._context = context
        self._others = others
        self._store = others.responses
        self._responses = responses
        self._new_stream = new_stream
        self._wall_time = context.wall_time
        self._take_over = take_over
        self._followings: dict[Following, asyncio.Task[None]] = {}
        self._looking: dict[str, asyncio.Task[Channel | None]] = {}
        self._background = Background()
        context.metrics.gauge(catalogue.RESPONSES_FOLLOWED, lambda: len(self._followings))

    def __len__(self) -> int:
        return len(self._followings)

    async def find(self, response_id: str, channel: Channel) -> bool:
        """Whether this session has such a response; then there is a copy of it that has what there is of it now.

        Raises:
            Overloaded: the store can't be read.
        """
        looking = self._looking.get(response_id)
        if looking is None:
            # One look for all that ask at the same time: a storm of readers is one to the store.
            looking = self._looking[response_id] = self._background.run(self._look(response_id))
            looking.add_done_callback(lambda _: self._looking.pop(response_id))
        with _store_reached():
            return await asyncio.shield(looking) == channel

    async def epoch_on_record(self, response_id: str) -> int:
        """How many owners the response has had, as the store knows; 0 for one that it doesn't know.

        Raises:
            Overloaded: the store can't be read.
        """
        with _store_reached():
            head = await self._store.head(response_id, self._wall_time())
        return head.epoch if head is not None else 0

    async def cancel(self, stream: ResponseStream) -> ResponseState:
        """Have the owner cancel the response; its state then.

        Raises:
            Overloaded: it can't be told.
        """
        try:
            head = await self._store.head(stream.response_id, self._wall_time())
            lease = await self._store.lease(head.owner) if head is not None else None
            if lease is None or lease.address is None or not lease.in_force(self._wall_time()):
                raise PeerUnreachable("its owner has left")
            return await self._others.peers.cancel(PeerResponse(lease.address, stream.channel, stream.response_id))
        except (PeerUnreachable, StoreUnavailable) as error:
            raise Overloaded(
                "the task that generates this response can't be told now; nothing was changed, cancel it again",
                code="owner_unreachable",
                retry_after_ms=_RETRY_AFTER_MS,
            ) from error

    def sweep(self, now: float) -> None:
        """Follow no more what nobody reads."""
        for following, run in tuple(self._followings.items()):
            stream = following.stream
            unread = stream.unread_since is not None and now - stream.unread_since > _UNREAD_SECONDS
            if unread or self._responses.held(stream.response_id) is not stream:
                self._responses.drop(stream)
                run.cancel()

    async def aclose(self) -> None:
        """Follow nothing any more."""
        await self._background.aclose()

    async def _look(self, response_id: str) -> Channel | None:
        """Whose response it is, once there is a copy of it."""
        head = await self._store.head(response_id, self._wall_time())
        if head is None:
            return None
        held = self._responses.held(response_id)
        if held is not None:
            return held.channel  # this task has taken it over in the meantime
        following = self._begin(head)
        self._responses.add(following.stream)
        run = self._background.run(self._run(following))
        self._followings[following] = run
        filled = self._background.run(following.filled.wait())
        await asyncio.wait((run, filled), timeout=_FILL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        filled.cancel()
        return following.stream.channel

    def _pause(self) -> float:
        """As often as the store is written; less often when there are many, since reading takes from delivering."""
        reading = sum(following.reads_store for following in self._followings)
        return max(self._context.limits.store_interval_ms / 1000, reading / _READS_PER_SECOND)

    def _begin(self, head: ResponseHead) -> Following:
        stream = self._new_stream(head.response_id, head.message_id, Channel(*head.channel.split(":")))
        stream.via = "store"
        return Following(self._context, self._others, stream, head, pause=self._pause, take_over=self._take_over)

    async def _run(self, following: Following) -> None:
        stream = following.stream
        try:
            await following.run()
        except Diverged:
            _logger.debug("response %s: this copy is dropped", stream.response_id)
        finally:
            del self._followings[following]
            self._settle(stream)

    def _settle(self, stream: ResponseStream) -> None:
        """The copy grows no more: it is whole, or its readers need another one."""
        if self._responses.held(stream.response_id) is not stream:
            return
        if stream.log.closed:
            self._responses.ended(stream)
        else:
            self._responses.drop(stream)
            stream.lose()


@contextmanager
def _store_reached() -> Iterator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise Overloaded(
            "the store of responses cannot be reached; nothing was changed, ask again",
            code="store_unavailable",
            retry_after_ms=_RETRY_AFTER_MS,
        ) from error
