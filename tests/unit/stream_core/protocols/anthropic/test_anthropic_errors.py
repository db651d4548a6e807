"""Errors in Anthropic's API: the words and types by which its clients know what to do."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.token_sources.model_refusals import refusal
from evenflow.stream_core.base.errors import EvenflowError, Overloaded, RateLimited
from evenflow.stream_core.protocols.anthropic.encoder import error_object, status_of

_THROTTLED = RateLimited("m", code="upstream_throttled", retry_after_ms=1_500)


@pytest.mark.parametrize(
    ("error", "status", "type", "words"),
    [
        (
            refusal("maximum context length is 8192 tokens, you sent 9001", status=413),
            400,
            "invalid_request_error",
            "prompt is too long: 9001 tokens > 8192 maximum",
        ),
        (_THROTTLED, 429, "rate_limit_error", "m"),
        (Overloaded("m", code="overloaded"), 529, "overloaded_error", "m"),
    ],
)
def test_its_clients_know_what_to_do(
    error: EvenflowError,
    status: int,
    type: str,  # noqa: A002 - its name in the protocol
    words: str,
) -> None:
    body = error_object(error, "req_1")
    assert status_of(error) == status
    assert (body["type"], body["error"]["type"], body["error"]["message"]) == ("error", type, words)


def test_a_field_that_the_model_refuses_has_the_client_s_name() -> None:
    words = "Unsupported parameter"
    refused = refusal(words, status=400, code="unsupported_parameter", param="stop")
    error = error_object(refused, "req_1")["error"]
    assert error["param"] == "stop_sequences"
    assert "(param: stop_sequences)" in error["message"]
