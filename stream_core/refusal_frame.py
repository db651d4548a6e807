"""The frame that refuses what a client sent, the same on every transport."""

from __future__ import annotations

from stream_core.errors import EvenflowError, Overloaded, RateLimited
from stream_core.messages import (
    ChatMessageFrame,
    ClientMessage,
    ErrorFrame,
    ServerMessage,
    SystemBusy,
    Throttle,
)


def refusal_frame(error: EvenflowError, message_id: str | None = None, response_id: str | None = None) -> ServerMessage:
    """`throttle`, `system.busy` or `error`, by what the error is and what it is about."""
    told = error.to_object()
    wait = error.retry_after_ms or 1000
    # `system.busy` is about messages; what can't be done with a response now names it.
    about_response = response_id is not None and isinstance(error, Overloaded)
    if isinstance(error, RateLimited) and error.code != "queue_full":
        return Throttle(
            type="throttle",
            retry_after_ms=wait,
            message_id=message_id,
            response_id=response_id,
            error=told,
        )
    if isinstance(error, RateLimited | Overloaded) and not about_response:
        return SystemBusy(type="system.busy", retry_after_ms=wait, message_id=message_id, error=told)
    return ErrorFrame(type="error", error=told, message_id=message_id, response_id=response_id)


def ids_of(message: ClientMessage) -> tuple[str | None, str | None]:
    """The message's id, or that of the response which a client's frame is about."""
    if isinstance(message, ChatMessageFrame):
        return message.message_id, None
    return None, message.response_id
