"""Errors cross the wire: what a worker's token source raised is what the handler's does."""

from __future__ import annotations

import logging

import grpc
import pytest

from evenflow.fargate_handler.inference.errors import error_of, status_of
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog
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

Status = grpc.StatusCode


OPERATOR = OperatorLog(logging.getLogger(__name__))


def ended(status: grpc.StatusCode, said: str = "", *told: tuple[str, str]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(*told), said)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ModelRefused("no", code="model_refused"), Status.INVALID_ARGUMENT),
        (
            UnsupportedByModel("no", code="unsupported_parameter", param="größe\n"),
            Status.INVALID_ARGUMENT,
        ),
        (UpstreamFailed("it failed", code="upstream_failed"), Status.ABORTED),
        (UpstreamUnreadable("not a chunk", code="upstream_failed"), Status.DATA_LOSS),
        (
            UpstreamFailed("later", code="upstream_throttled", retry_after_ms=5000),
            Status.RESOURCE_EXHAUSTED,
        ),
        (InternalError("ours", code="internal_error"), Status.INTERNAL),
        (
            ModelRefused(
                "no",
                code="context_length_exceeded",
                param="messages",
                status=400,
                type="invalid_request_error",
            ),
            Status.INVALID_ARGUMENT,
        ),
        (
            UpstreamAnswered(
                "later",
                code="rate_limit_exceeded",
                status=429,
                type="rate_limit_error",
                retry_after_ms=7,
            ),
            Status.RESOURCE_EXHAUSTED,
        ),
        (UpstreamAnswered("it failed", code="upstream_failed", status=502), Status.ABORTED),
        (
            UpstreamRejected(
                "no quota", code="insufficient_quota", status=429, type="rate_limit_error"
            ),
            Status.FAILED_PRECONDITION,
        ),
    ],
)
def test_an_error_comes_out_as_it_went_in(error: EvenflowError, status: grpc.StatusCode) -> None:
    code, message, metadata = status_of(error)
    assert code is status
    came = error_of(ended(code, message, *metadata), OPERATOR)
    assert type(came) is type(error)
    assert came.to_object() == error.to_object()


def test_a_worker_that_is_not_let_in_is_not_asked_again_and_its_reasons_are_not_for_users(
    caplog: pytest.LogCaptureFixture,
) -> None:
    came = error_of(
        ended(
            *status_of(UpstreamRejected("the key of the model is wrong", code="model_not_set_up"))[
                :2
            ]
        ),
        OPERATOR,
    )
    assert type(came) is UpstreamRejected
    assert "key" not in came.message
    assert "the key of the model is wrong" in caplog.text


def test_a_deadline_of_the_worker_is_a_timeout() -> None:
    code, message, metadata = status_of(UpstreamTimeout("x", code="model_timeout"))
    assert type(error_of(ended(code, message, *metadata), OPERATOR)) is UpstreamTimeout
    assert (
        error_of(ended(Status.DEADLINE_EXCEEDED, "Deadline Exceeded"), OPERATOR).code
        == "model_timeout"
    )


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_whatever_status_a_foreign_worker_ends_with_is_an_error_of_the_contract(
    status: grpc.StatusCode, caplog: pytest.LogCaptureFixture
) -> None:
    came = error_of(ended(status, "10.0.0.7: stack trace"), OperatorLog(logging.getLogger("told")))
    refused = (
        Status.FAILED_PRECONDITION,
        Status.NOT_FOUND,
        Status.PERMISSION_DENIED,
        Status.UNAUTHENTICATED,
    )
    kinds = {
        Status.INVALID_ARGUMENT: ModelRefused,
        Status.DEADLINE_EXCEEDED: UpstreamTimeout,
        Status.UNIMPLEMENTED: UpstreamRejected,
        Status.DATA_LOSS: UpstreamUnreadable,
    } | dict.fromkeys(refused, UpstreamRejected)
    assert type(came) is kinds.get(status, UpstreamFailed)
    assert came.code in ("model_refused", "model_timeout", "upstream_failed", "model_not_set_up")
    assert "stack trace" not in came.message
    assert "10.0.0.7" not in came.message
    assert ("stack trace" in caplog.text) is (type(came) in (ModelRefused, UpstreamRejected))


def test_a_message_fits_into_the_headers() -> None:
    assert len(status_of(UpstreamFailed("x" * 100_000, code="upstream_failed"))[1]) <= 500
