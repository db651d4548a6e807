"""Where a client that comes back goes on, in whichever copy of the response this task has."""

from __future__ import annotations

from typing import NamedTuple

from fargate_handler.gateway.context import ClientContext
from fargate_handler.gateway.waking_reader import reading
from stream_core.channel import Channel
from stream_core.errors import InvalidRequest, Overloaded
from stream_core.response_stream import ResponseStream
from stream_core.resume_point import ResumePoint, resume_point

PATIENCE_SECONDS = 20.0
"""Longer than a lease: by then somebody else is the owner."""


class Resumption(NamedTuple):
    """A response, and where its reader goes on."""

    stream: ResponseStream
    point: ResumePoint


async def resume(
    context: ClientContext,
    response_id: str,
    channel: Channel,
    after: int,
    epoch: int | None,
    param: str,
    patience: float = PATIENCE_SECONDS,
) -> Resumption:
    """Find the response, and the place in it behind what the client has.

    Args:
        after, epoch: see `stream_core.resume_point`.
        param: what `after` is called in the request.
        patience: for a client that holds more than this task knows, so long the response's owner, or the next one, has to
            tell (seconds).

    Raises:
        NotFound, Gone: see `Orchestrator.find`.
        InvalidRequest: the client claims to have what the response hasn't, or to know of an owner that it never had.
        Overloaded: it can't be told yet where the client goes on.
    """
    give_up_at = context.monotonic() + patience
    looked_again = False
    while True:
        stream = await context.orchestrator.find(response_id, channel)
        point = await _point(context, stream, after, epoch, give_up_at)
        if point is not None:
            return Resumption(stream, point)
        if epoch is not None and epoch > stream.log.epoch_at(stream.log.next_index):
            _look_again(context, stream, param, looked_again=looked_again)
            looked_again = True
        elif stream.via == "owner" or stream.log.closed:
            raise InvalidRequest(
                f"`{param}` lies behind the response's end: its last index is {stream.log.next_index - 1}; nothing was changed",
                code="invalid_field",
                param=param,
            )
        if context.monotonic() >= give_up_at:
            raise Overloaded(
                "what you have of this response isn't on record yet; keep it, and resume again",
                code="response_elsewhere",
                retry_after_ms=1000,
            )


def _look_again(context: ClientContext, stream: ResponseStream, param: str, *, looked_again: bool) -> None:
    """The client knows of a later owner than this copy does: drop it, so that another one is found."""
    alone = context.orchestrator.elsewhere is None
    if alone or (looked_again and stream.log.closed):
        raise InvalidRequest(
            f"`{param}` names an owner that this response never had; nothing was changed",
            code="invalid_field",
            param=param,
        )
    if stream.via == "owner" and not stream.log.closed:
        raise Overloaded(
            "another task answers this by now, which this one is about to learn; resume again",
            code="response_elsewhere",
            retry_after_ms=1000,
        )
    context.orchestrator.lose(stream)


async def _point(
    context: ClientContext, stream: ResponseStream, after: int, epoch: int | None, give_up_at: float
) -> ResumePoint | None:
    """Where the reader goes on, as soon as this copy tells; None when it doesn't any more, or in time."""
    point = resume_point(stream.log, after, epoch)
    if point is not None or stream.via == "owner":
        return point
    with reading(stream, context.limits) as reader:
        while point is None and not (reader.left_behind or stream.log.closed):
            in_time = await reader.wait(give_up_at - context.monotonic())
            point = resume_point(stream.log, after, epoch)
            if not in_time:
                break
    return point
