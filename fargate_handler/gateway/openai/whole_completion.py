"""An answer that is given at once, when it is whole."""

from __future__ import annotations

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.openai.deadline import Deadline
from fargate_handler.gateway.openai.ending import check_completed
from fargate_handler.gateway.waking_reader import reading
from stream_core.response_stream import ResponseStream

# The event loop takes no timeout without an end.
_LONGEST_WAIT_SECONDS = 60.0


async def whole_response(context: GatewayContext, stream: ResponseStream, deadline: Deadline) -> ResponseStream:
    """The response, ended; by then it may be another copy of it.

    Raises:
        TimedOut: not within the deadline.
        EvenflowError: it ended without an answer, or can't be found any more.
    """
    while not stream.log.closed:
        with reading(stream, context.limits) as reader:
            while not (stream.log.closed or reader.left_behind):
                await reader.wait(min(deadline.left, _LONGEST_WAIT_SECONDS))
                deadline.check()
        if not stream.log.closed:
            stream = await context.orchestrator.find(stream.response_id, stream.channel)
    check_completed(stream)
    context.measures.delivered.value += stream.log.next_index
    return stream
