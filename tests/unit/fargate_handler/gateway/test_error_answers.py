"""What an error's answer tells clients of whether, and when, to ask again."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.gateway.http.answers import error_answer
from evenflow.fargate_handler.gateway.http.senders import _retries
from evenflow.stream_core.base.errors import (
    EvenflowError,
    Overloaded,
    RateLimited,
    UpstreamAnswered,
)


@pytest.mark.parametrize(
    ("error", "retry_after", "should_retry"),
    [
        (RateLimited("m", code="rate_limited", retry_after_ms=1_200), "2", None),
        (RateLimited("m", code="upstream_throttled"), "2", None),
        (Overloaded("m", code="overloaded"), "2", None),
        (UpstreamAnswered("m", code="upstream_failed", status=502), None, None),
        (RateLimited("m", code="budget_exhausted", retry_after_ms=44_000_000), "44000", "false"),
        (RateLimited("m", code="insufficient_quota"), None, "false"),
    ],
)
def test_it_says_when_to_ask_again_and_whether(
    error: EvenflowError, retry_after: str | None, should_retry: str | None
) -> None:
    headers = error_answer(error).headers
    assert headers.get("Retry-After") == retry_after
    assert headers.get("x-should-retry") == should_retry


@pytest.mark.parametrize(
    ("headers", "retries"),
    [
        ({"x-stainless-lang": "python", "x-stainless-retry-count": "0"}, True),
        ({"User-Agent": "ai/7.0.0 ai-sdk/provider-utils/5.0.0 runtime/node.js/24"}, True),
        ({"User-Agent": "codex_cli_rs/0.171.0"}, True),
        ({"User-Agent": "curl/8.5.0"}, False),
        ({}, False),
    ],
)
def test_clients_that_send_a_request_again_by_themselves_are_known(
    headers: dict[str, str], retries: bool
) -> None:
    assert _retries(headers) is retries
