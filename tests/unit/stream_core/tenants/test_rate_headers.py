from __future__ import annotations

import pytest

from evenflow.stream_core.tenants.charges import Level
from evenflow.stream_core.tenants.quotas import BoundState
from evenflow.stream_core.tenants.rate_headers import (
    anthropic_rate_headers,
    duration,
    openai_rate_headers,
)

STATES = [
    BoundState(Level.TENANT, "requests_per_minute", 60, 50, 10.0),
    BoundState(Level.TENANT, "tokens_per_minute", 9_000, 900, 54.0),
    BoundState(Level.TENANT, "input_tokens_per_minute", 5_000, 4_000, 12.0),
    BoundState(Level.USER, "requests_per_minute", 6, 5, 10.0),
    BoundState(Level.USER, "output_tokens_per_minute", 800, 0, 90.25),
]


def test_openai_s_headers_are_of_the_bounds_with_the_least_left() -> None:
    assert openai_rate_headers(STATES) == {
        "x-ratelimit-limit-requests": "6",
        "x-ratelimit-remaining-requests": "5",
        "x-ratelimit-reset-requests": "10s",
        "x-ratelimit-limit-tokens": "800",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1m30.25s",
    }


def test_anthropic_s_headers_tell_input_and_output_apart_too() -> None:
    assert anthropic_rate_headers(STATES, 1_800_000_000.5) == {
        "anthropic-ratelimit-requests-limit": "6",
        "anthropic-ratelimit-requests-remaining": "5",
        "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:11Z",
        "anthropic-ratelimit-tokens-limit": "800",
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2027-01-15T08:01:31Z",
        "anthropic-ratelimit-input-tokens-limit": "5000",
        "anthropic-ratelimit-input-tokens-remaining": "4000",
        "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:13Z",
        "anthropic-ratelimit-output-tokens-limit": "800",
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": "2027-01-15T08:01:31Z",
    }


def test_what_has_no_bound_has_no_header() -> None:
    assert openai_rate_headers([]) == {}
    assert anthropic_rate_headers([], 0.0) == {}
    assert {name.rpartition("-")[2] for name in openai_rate_headers(STATES[:1])} == {"requests"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.0001, "1ms"),
        (0.02, "20ms"),
        (0.9991, "1s"),
        (1.0, "1s"),
        (8.64, "8.64s"),
        (59.9999, "1m0s"),
        (72.5, "1m12.5s"),
        (360.0, "6m0s"),
        (3_600.0, "1h0m0s"),
        (7_384.25, "2h3m4.25s"),
    ],
)
def test_times_are_written_as_openai_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
