from __future__ import annotations

import pytest

from evenflow.stream_core.base.errors import (
    EvenflowError,
    Gone,
    InternalError,
    ModelRefused,
    Overloaded,
    RateLimited,
    UnsupportedByModel,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
)
from evenflow.stream_core.protocols.openai_chat.encoder import check_completed
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream


@pytest.mark.parametrize(
    "error",
    [
        UpstreamFailed("m", code="upstream_failed"),
        UpstreamRejected("m", code="upstream_failed"),
        UpstreamTimeout("m", code="model_timeout"),
        UpstreamTimeout("m", code="first_token_timeout"),
        ModelRefused("m", code="model_refused"),
        UnsupportedByModel("m", code="unsupported_parameter", param="logit_bias"),
        Overloaded("m", code="draining", retry_after_ms=1000),
        RateLimited("m", code="queue_full", retry_after_ms=2000),
        InternalError("m", code="attempts_exhausted"),
        ModelRefused(
            "m",
            code="context_length_exceeded",
            param="messages",
            status=400,
            type="invalid_request_error",
        ),
        ModelRefused("m", code="model_refused", status=422, type="invalid_request_error"),
        ModelRefused("m", code="model_refused", status=400, type="authentication_error"),
        ModelRefused("m", code="model_refused", status=400, type="not_found_error"),
        UpstreamAnswered(
            "m",
            code="rate_limit_exceeded",
            status=429,
            type="rate_limit_error",
            retry_after_ms=7000,
        ),
        UpstreamAnswered("m", code="upstream_overloaded", status=503, type="overloaded_error"),
        UpstreamAnswered("m", code="upstream_failed", status=502),
        UpstreamRejected("m", code="insufficient_quota", status=429, type="rate_limit_error"),
    ],
)
def test_an_error_in_the_log_has_its_status_again(error: EvenflowError) -> None:
    failed = new_stream(HandTurnedClock())
    failed.fail(error.to_object())
    with pytest.raises(EvenflowError) as told:
        check_completed(failed)
    assert told.value.status == error.status
    # The answer has its status; in the log it stands where the type alone doesn't tell.
    assert {"status": error.status} | told.value.to_object() == {
        "status": error.status
    } | error.to_object()


def test_what_was_cancelled_is_gone() -> None:
    cancelled = new_stream(HandTurnedClock())
    cancelled.cancel()
    with pytest.raises(Gone) as told:
        check_completed(cancelled)
    assert told.value.code == "response_cancelled"


def test_what_was_completed_is_an_answer() -> None:
    completed = new_stream(HandTurnedClock())
    completed.push("yes")
    completed.complete("stop", None)
    check_completed(completed)
