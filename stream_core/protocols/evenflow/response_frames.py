"""Frames about a response: queued, restarted and ended; and the rejection of a frame."""

from __future__ import annotations

from evenflow.stream_core.base.errors import EvenflowError, Overloaded, RateLimited
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.evenflow.messages import (
    ChatMessageFrame,
    ClientMessage,
    ErrorFrame,
    Ping,
    ResponseCompleted,
    ResponseFailed,
    ResponseQueued,
    ResponseRestarted,
    ServerMessage,
    SystemBusy,
    Throttle,
)


def rejection_frame(
    error: EvenflowError, message_id: str | None = None, response_id: str | None = None
) -> ServerMessage:
    """A `throttle`, `system.busy` or `error` frame, by the error and what it is about."""
    error_object = error.to_object()
    wait = error.retry_after_ms or 1000
    # `system.busy` is about messages. A rejection about a response names that response.
    about_response = response_id is not None and isinstance(error, Overloaded)
    if isinstance(error, RateLimited) and error.code != "queue_full":
        return Throttle(
            type="throttle",
            retry_after_ms=wait,
            message_id=message_id,
            response_id=response_id,
            error=error_object,
        )
    if isinstance(error, RateLimited | Overloaded) and not about_response:
        return SystemBusy(
            type="system.busy", retry_after_ms=wait, message_id=message_id, error=error_object
        )
    return ErrorFrame(
        type="error", error=error_object, message_id=message_id, response_id=response_id
    )


def ids_of(message: ClientMessage) -> tuple[str | None, str | None]:
    """The ids of the message and of the response that a client's frame is about."""
    if isinstance(message, ChatMessageFrame):
        return message.message_id, None
    if isinstance(message, Ping):
        return None, None
    return None, message.response_id


def restart_frame(stream: ResponseStream, restart: Restart, index: int) -> ResponseRestarted:
    """`chat.response.restarted` for the marker at `index` of the stream's log."""
    return ResponseRestarted(
        type="chat.response.restarted",
        session_id=stream.channel.session,
        response_id=stream.response_id,
        from_index=restart.from_index,
        attempt=restart.attempt,
        index=index,
        epoch=restart.epoch or stream.log.epoch_at(index),
        withdrawn=restart.withdraws,
    )


def queued_frame(stream: ResponseStream, place: QueuePlace) -> ResponseQueued:
    """`chat.response.queued`: where the response waits for the model."""
    return ResponseQueued(
        type="chat.response.queued",
        session_id=stream.channel.session,
        response_id=stream.response_id,
        position=place.position,
        expected_seconds=place.expected_seconds,
    )


def terminal_frame(stream: ResponseStream) -> ResponseCompleted | ResponseFailed:
    """The last frame of a response: `chat.response.error`, or `chat.response.completed`."""
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
