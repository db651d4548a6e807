"""How a response ended, as a client of OpenAI's API is told."""

from __future__ import annotations

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


def _error_of(error: dict[str, object]) -> EvenflowError:
    # It may come from another task, as the object that stands in the log.
    kind = next((known for known in _CLASSES if known.type == error["type"]), InternalError)
    if error["code"] in _TIMEOUTS:
        kind = UpstreamTimeout
    retry_after_ms, param = error.get("retry_after_ms"), error.get("param")
    return kind(
        str(error["message"]),
        code=str(error["code"]),
        param=param if isinstance(param, str) else None,
        retry_after_ms=retry_after_ms if isinstance(retry_after_ms, int) else None,
    )
