"""Errors cross the wire: what a worker's token source raised is what the handler's does."""

from __future__ import annotations

import grpc
import pytest

from fargate_handler.inference_errors import error_of, status_of
from stream_core.errors import (
    EvenflowError,
    InternalError,
    ModelRefused,
    UnsupportedByModel,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
)

Status = grpc.StatusCode


def ended(status: grpc.StatusCode, said: str = "", *told: tuple[str, str]) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(*told), said)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ModelRefused("no", code="model_refused"), Status.INVALID_ARGUMENT),
        (UnsupportedByModel("no", code="unsupported_parameter", param="größe\n"), Status.INVALID_ARGUMENT),
        (UpstreamFailed("it failed", code="upstream_failed"), Status.ABORTED),
        (UpstreamFailed("later", code="upstream_throttled", retry_after_ms=5000), Status.RESOURCE_EXHAUSTED),
        (InternalError("ours", code="internal_error"), Status.INTERNAL),
    ],
)
def test_an_error_comes_out_as_it_went_in(error: EvenflowError, status: grpc.StatusCode) -> None:
    code, message, metadata = status_of(error)
    assert code is status
    came = error_of(ended(code, message, *metadata))
    assert type(came) is type(error)
    assert came.to_object() == error.to_object()


def test_a_worker_that_is_not_let_in_is_not_asked_again_and_its_reasons_are_not_for_users(
    caplog: pytest.LogCaptureFixture,
) -> None:
    came = error_of(ended(*status_of(UpstreamRejected("the key of the model is wrong", code="upstream_failed"))[:2]))
    assert type(came) is UpstreamRejected
    assert "key" not in came.message
    assert "the key of the model is wrong" in caplog.text


def test_a_deadline_of_the_worker_is_a_timeout() -> None:
    code, message, metadata = status_of(UpstreamTimeout("x", code="model_timeout"))
    assert type(error_of(ended(code, message, *metadata))) is UpstreamTimeout
    assert error_of(ended(Status.DEADLINE_EXCEEDED, "Deadline Exceeded")).code == "model_timeout"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_whatever_status_a_foreign_worker_ends_with_is_an_error_of_the_contract(status: grpc.StatusCode) -> None:
    came = error_of(ended(status, "10.0.0.7: stack trace"))
    refused = (Status.FAILED_PRECONDITION, Status.NOT_FOUND, Status.PERMISSION_DENIED, Status.UNAUTHENTICATED)
    kinds = {
        Status.INVALID_ARGUMENT: ModelRefused,
        Status.DEADLINE_EXCEEDED: UpstreamTimeout,
        Status.UNIMPLEMENTED: UpstreamRejected,
    } | dict.fromkeys(refused, UpstreamRejected)
    assert type(came) is kinds.get(status, UpstreamFailed)
    assert came.code in ("model_refused", "model_timeout", "upstream_failed")
    assert "stack trace" not in came.message or status is Status.INVALID_ARGUMENT


def test_a_message_fits_into_the_headers() -> None:
    assert len(status_of(UpstreamFailed("x" * 100_000, code="upstream_failed"))[1]) <= 500
