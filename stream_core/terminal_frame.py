"""The frame that ends a response, the same on every transport."""

from __future__ import annotations

from stream_core.messages import ResponseCompleted, ResponseFailed
from stream_core.response_state import ResponseState
from stream_core.response_stream import ResponseStream


def terminal_frame(stream: ResponseStream) -> ResponseCompleted | ResponseFailed:
    """`chat.response.completed` (also for a cancelled response) or `chat.response.error` of an ended response."""
    last_index = stream.log.next_index - 1
    if stream.state is ResponseState.ERROR:
        return ResponseFailed(
            type="chat.response.error",
            session_id=stream.channel.session,
            response_id=stream.response_id,
            message_id=stream.message_id,
            last_index=last_index,
            error=stream.error or {},
        )
    return ResponseCompleted(
        type="chat.response.completed",
        session_id=stream.channel.session,
        response_id=stream.response_id,
        message_id=stream.message_id,
        finish_reason=stream.finish_reason or "stop",
        last_index=last_index,
        usage=stream.usage,
        degraded=stream.degraded,
    )
