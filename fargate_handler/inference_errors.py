"""The contract's errors as gRPC statuses, and back: what a worker says when its model fails, and what a handler makes of it."""

from __future__ import annotations

import logging
from urllib.parse import quote, unquote

import grpc

from stream_core.errors import (
    EvenflowError,
    InternalError,
    ModelRefused,
    UnsupportedByModel,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
)

_logger = logging.getLogger(__name__)

_CODE, _PARAM, _RETRY_AFTER = "evenflow-code", "evenflow-param", "evenflow-retry-after-ms"
# A status travels in HTTP/2's headers, which are small.
_MOST_CHARACTERS = 500

_Status = grpc.StatusCode
# For us to mend, and nothing that a user should read.
_NOT_FOR_US = (
    _Status.FAILED_PRECONDITION,
    _Status.NOT_FOUND,
    _Status.PERMISSION_DENIED,
    _Status.UNAUTHENTICATED,
    _Status.UNIMPLEMENTED,
)
_KEPT = "what it had sent was kept"


def status_of(error: EvenflowError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str], ...]]:
    """Code, message and trailing metadata for what a token source raised."""
    metadata = [(_CODE, error.code)]
    if error.retry_after_ms is not None:
        metadata.append((_RETRY_AFTER, str(error.retry_after_ms)))
    if isinstance(error, UnsupportedByModel) and error.param is not None:
        metadata.append((_PARAM, quote(error.param)))
    return _code_of(error), error.message[:_MOST_CHARACTERS], tuple(metadata)


def _code_of(error: EvenflowError) -> grpc.StatusCode:
    match error:
        case ModelRefused():
            return _Status.INVALID_ARGUMENT
        case UpstreamRejected():
            return _Status.FAILED_PRECONDITION
        case UpstreamTimeout():
            return _Status.DEADLINE_EXCEEDED
        case UpstreamFailed():
            return _Status.ABORTED if error.retry_after_ms is None else _Status.RESOURCE_EXHAUSTED
    return _Status.INTERNAL


def error_of(failure: grpc.aio.AioRpcError) -> EvenflowError:
    """The contract's error for how a call ended."""
    told = {str(key): str(value) for key, value in failure.trailing_metadata() or ()}
    status, said = failure.code(), failure.details() or ""
    # What a worker of ours says is made for users; anything else may be of its insides.
    code = told.get(_CODE)
    message = said if code else f"the worker ended the answer ({status.name}); {_KEPT}"
    if status is _Status.INVALID_ARGUMENT and code and _PARAM in told:
        return UnsupportedByModel(said, code=code, param=unquote(told[_PARAM]))
    if status is _Status.INVALID_ARGUMENT:
        refusal = said if code else f"the model refused the message: {said[:200]}"
        return ModelRefused(refusal, code=code or "model_refused")
    if status in _NOT_FOR_US:
        _logger.error("the worker will not have us (%s: %s): check it, and EVENFLOW_WORKERS", status.name, said[:200])
        return UpstreamRejected("the model cannot be reached; what was delivered was kept", code="upstream_failed")
    if status is _Status.DEADLINE_EXCEEDED:
        return UpstreamTimeout(f"the model did not finish in time; {_KEPT}", code=code or "model_timeout")
    if status is _Status.INTERNAL and code:
        return InternalError(message, code=code)
    retry_after = told.get(_RETRY_AFTER, "")
    return UpstreamFailed(
        message, code=code or "upstream_failed", retry_after_ms=int(retry_after) if retry_after.isdecimal() else None
    )
