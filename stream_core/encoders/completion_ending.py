"""How a response ended, as a client of OpenAI's API is told."""

from __future__ import annotations

from typing import Any

from stream_core.errors import (
    EvenflowError,
    Gone,
    InternalError,
    ModelRefused,
    Overloaded,
    RateLimited,
    UnsupportedByModel,
    UpstreamFailed,
    UpstreamTimeout,
)
from stream_core.response_state import ResponseState
from stream_core.response_stream import ResponseStream

_TIMEOUTS = ("first_token_timeout", "model_timeout")
_CLASSES: tuple[type[EvenflowError], ...] = (
    UnsupportedByModel,
    ModelRefused,
    RateLimited,
    Overloaded,
    UpstreamFailed,
    InternalError,
)


def check_completed(stream: ResponseStream) -> None:
    """Whether an ended response has an answer.

    Raises:
        EvenflowError: what it ended with instead.
    """
    if stream.state is ResponseState.CANCELLED:
        raise Gone(
            "this answer was cancelled before its end, because nobody read it any more; ask again, with another "
            "Idempotency-Key if there was one",
            code="response_cancelled",
        )
    if stream.error is not None:
        raise _error_of(stream.error)


def _error_of(error: dict[str, Any]) -> EvenflowError:
    # It may come from another task, as the object that stands in the log.
    kind = next((known for known in _CLASSES if known.type == error["type"]), InternalError)
    if error["code"] in _TIMEOUTS:
        kind = UpstreamTimeout
    return kind(
        str(error["message"]),
        code=str(error["code"]),
        param=error.get("param"),
        retry_after_ms=error.get("retry_after_ms"),
        status=error.get("status"),
        type=error["type"],
    )
