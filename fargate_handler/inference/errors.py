"""Errors of token sources as statuses of gRPC, and back."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

import grpc

from evenflow.fargate_handler.token_sources.model_refusals import refusal
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog, not_set_up
from evenflow.stream_core.base.errors import (
    EvenflowError,
    InternalError,
    ModelRefused,
    UnsupportedByModel,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreadable,
)

_CODE, _RETRY_AFTER = "evenflow-code", "evenflow-retry-after-ms"
# The status of the model's server, where it is passed on.
_STATUS, _TYPE, _PARAM = "evenflow-status", "evenflow-type", "evenflow-param"
# A status is in HTTP/2's headers, which are small.
_MOST_CHARACTERS = 500

_Status = grpc.StatusCode
# They are for the operator, not for users.
_FAILURES = {_Status.DATA_LOSS: UpstreamUnreadable}
_REJECTED = (
    _Status.FAILED_PRECONDITION,
    _Status.NOT_FOUND,
    _Status.PERMISSION_DENIED,
    _Status.UNAUTHENTICATED,
    _Status.UNIMPLEMENTED,
)
_KEPT = "what it had sent was kept"


def status_of(error: EvenflowError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str], ...]]:
    """The status code, message and trailing metadata for a token source's error."""
    metadata = [(_CODE, error.code)]
    if error.retry_after_ms is not None:
        metadata.append((_RETRY_AFTER, str(error.retry_after_ms)))
    if error.status_of_model is not None:
        metadata += [(_STATUS, str(error.status_of_model)), (_TYPE, error.type)]
    if error.param is not None:
        metadata.append((_PARAM, quote(error.param)))
    return _code_of(error), error.message[:_MOST_CHARACTERS], tuple(metadata)


def _code_of(error: EvenflowError) -> grpc.StatusCode:
    match error:
        case ModelRefused():
            return _Status.INVALID_ARGUMENT
        case UpstreamRejected():
            return _Status.FAILED_PRECONDITION
        case UpstreamUnreadable():
            return _Status.DATA_LOSS
        case UpstreamTimeout():
            return _Status.DEADLINE_EXCEEDED
        case UpstreamFailed():
            return _Status.ABORTED if error.retry_after_ms is None else _Status.RESOURCE_EXHAUSTED
    return _Status.INTERNAL


def error_of(failure: grpc.aio.AioRpcError, operator: OperatorLog) -> EvenflowError:
    """The error for the status of a call.

    Args:
        operator: the log of faults that the operator must mend.
    """
    metadata = {str(key): str(value) for key, value in failure.trailing_metadata() or ()}
    status, details = failure.code(), failure.details() or ""
    # Messages of our own workers are for users. Others may show something internal.
    code = metadata.get(_CODE)
    message = details if code else f"the worker ended the answer ({status.name}); {_KEPT}"
    if status is _Status.INVALID_ARGUMENT:
        return _refusal_of(details, code, metadata, operator)
    if status in _REJECTED:
        operator.error(
            f"the worker refuses us ({status.name}: {details[:200]}): check it, and "
            "EVENFLOW_WORKERS"
        )
        if code is None or _STATUS not in metadata:
            return not_set_up()
        return UpstreamRejected(message, code=code, **_further_fields(metadata))
    if status is _Status.DEADLINE_EXCEEDED:
        return UpstreamTimeout(
            f"the model did not finish in time; {_KEPT}", code=code or "model_timeout"
        )
    if status is _Status.INTERNAL and code:
        return InternalError(message, code=code)
    kind = UpstreamAnswered if _STATUS in metadata else _FAILURES.get(status, UpstreamFailed)
    return kind(message, code=code or "upstream_failed", **_further_fields(metadata))


def _refusal_of(
    details: str, code: str | None, metadata: dict[str, str], operator: OperatorLog
) -> ModelRefused:
    if code is None:
        operator.warning("a worker that is not ours refused a message", details)
        return refusal(details, status=ModelRefused.status, type=ModelRefused.type)
    # Without a server's status, the parameter was refused because the worker's model lacks it.
    kind = UnsupportedByModel if _PARAM in metadata and _STATUS not in metadata else ModelRefused
    return kind(details, code=code, **_further_fields(metadata))


def _further_fields(metadata: dict[str, str]) -> dict[str, Any]:
    """The further fields of a worker's error."""
    return {
        "status": _number(metadata.get(_STATUS)),
        "type": metadata.get(_TYPE),
        "param": unquote(metadata[_PARAM]) if _PARAM in metadata else None,
        "retry_after_ms": _number(metadata.get(_RETRY_AFTER)),
    }


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
