"""Requests that read a response: how they wait for news, and where they resume."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from evenflow.fargate_handler.gateway.connections.context import ClientContext
from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import InvalidRequest, Overloaded
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import NOTHING_YET, ResumePoint, resume_point

PATIENCE_SECONDS = 20.0
"""Longer than a lease, so that by then another node is the owner."""


class Progress(NamedTuple):
    """What a reader claims to have of a response. By default nothing yet.

    Attributes:
        after: the last index, -1 for none.
        epoch: the newest epoch that it knows. None: it sends none.
        param: the name of `after` in the request.
    """

    after: int = NOTHING_YET
    epoch: int | None = None
    param: str = ""


class Resumption(NamedTuple):
    """A response, and where its reader resumes."""

    stream: ResponseStream
    point: ResumePoint


class WakingReader:
    """A reader that only wakes a request, which reads the log itself. It can switch replicas.

    Attributes:
        stream: the replica that is read now.
        transport: by which the client reads.
        user: the user who reads. None: the node itself waits.
        next_index: 0, since it delivers nothing itself.
        left_behind: whether that replica has ended, and another one has the rest.
        only_end: whether deltas are no news, only the response's end is.
    """

    __slots__ = ("_news", "left_behind", "only_end", "stream", "transport", "user")

    next_index = 0

    def __init__(
        self, stream: ResponseStream, transport: Transport, user: str | None = None
    ) -> None:
        self.stream = stream
        self.transport = transport
        self.user = user
        self.left_behind = False
        self.only_end = False
        self._news = asyncio.Event()

    @property
    def pauses_model(self) -> bool:
        """False: a request never pauses."""
        return False

    def deliver(self, now: float, jitter: float | None) -> None:
        """Wake the request: there is news."""
        if not self.only_end or self.stream.log.closed:
            self._news.set()

    def on_queued(self, place: QueuePlace) -> None:
        """Nothing: the answer of the request has its place in the queue."""

    def announce_start(self) -> None:
        """Nothing: the answer of a request has no beginning of its own."""

    def on_lost(self) -> None:
        """This replica has ended: another one has the rest."""
        self.left_behind = True
        self._news.set()

    def wake(self) -> None:
        """Wake the waiting request, though nothing is new."""
        self._news.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for news, at most `seconds`. Returns whether there is any.

        The first call returns True at once, since `attach` wakes the request.
        """
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    async def switch_replica(self, context: ClientContext, progress: Progress) -> ResumePoint:
        """Switch to another replica of the response. Returns where to resume in it.

        Raises:
            EvenflowError: as for `resume`, or the replica has as many readers as allowed.
        """
        self.detach()
        stream, point = await resume(
            context, self.stream.response_id, self.stream.channel, progress
        )
        self.stream = stream
        self.attach()
        return point

    def attach(self) -> None:
        """Begin to wait for news.

        Raises:
            RateLimited: the response has as many readers as allowed.
        """
        self.stream.readers.check_limit()
        self.left_behind = False
        self.stream.attach(self)

    def detach(self) -> None:
        """Stop waiting for news."""
        self.stream.detach(self)


@contextmanager
def reading(
    stream: ResponseStream, transport: Transport, user: str | None = None
) -> Iterator[WakingReader]:
    """Read a response for the duration of a request, which answers this user over a transport.

    Raises:
        RateLimited: the response has as many readers as allowed.
    """
    reader = WakingReader(stream, transport, user)
    reader.attach()
    try:
        yield reader
    finally:
        reader.detach()


async def resume(
    context: ClientContext,
    response_id: str,
    channel: Channel,
    progress: Progress,
    patience: float = PATIENCE_SECONDS,
    *,
    check_ended: bool = True,
) -> Resumption:
    """Find a response, and the point after what the client has.

    Args:
        patience: seconds to wait if the client has more than this node knows. By then the owner,
            or the next one, may have published it.
        check_ended: whether to check that its session was not ended.

    Raises:
        NotFound: there is no such response, or it is another session's.
        Gone: it ended too long ago.
        InvalidRequest: the client claims to have what the response does not have.
        Overloaded: where the client resumes isn't known yet.
    """
    _, epoch, param = progress
    give_up_at = context.monotonic() + patience
    while True:
        stream = await context.orchestrator.find(response_id, channel, check_ended=check_ended)
        point = await _point(context, stream, progress, give_up_at)
        if point is not None:
            return Resumption(stream, point)
        if epoch is not None and epoch > stream.log.epoch_at(stream.log.next_index):
            await _look_again(context, stream, epoch, param)
        elif stream.is_owned_here or stream.log.closed:
            raise InvalidRequest(
                f"`{param}` is after the response's end: its last index is "
                f"{stream.log.next_index - 1}; nothing was changed",
                code="invalid_field",
                param=param,
            )
        if context.monotonic() >= give_up_at:
            raise Overloaded(
                "what you have of this response isn't on record yet; keep it, and resume again",
                code="response_elsewhere",
                retry_after_ms=1000,
            )


async def _look_again(
    context: ClientContext, stream: ResponseStream, epoch: int, param: str
) -> None:
    """Drop this replica, since the client knows a later owner: then another one is found."""
    if await context.orchestrator.epoch_on_record(stream) < epoch:
        raise InvalidRequest(
            f"`{param}` has an epoch that this response never had; nothing was changed",
            code="invalid_field",
            param=param,
        )
    if stream.is_owned_here and not stream.log.closed:
        raise Overloaded(
            "another node has taken this response over, which this one is about to learn; resume "
            "again",
            code="response_elsewhere",
            retry_after_ms=1000,
        )
    context.orchestrator.lose(stream)


async def _point(
    context: ClientContext, stream: ResponseStream, progress: Progress, give_up_at: float
) -> ResumePoint | None:
    """The resume point, once this replica has it. None if it ends, or is not there in time."""
    after, epoch, _ = progress
    point = resume_point(stream.log, after, epoch)
    if point is not None or stream.is_owned_here:
        return point
    with reading(stream, "http") as reader:
        while point is None and not (reader.left_behind or stream.log.closed):
            in_time = await reader.wait(give_up_at - context.monotonic())
            point = resume_point(stream.log, after, epoch)
            if not in_time:
                break
    return point
