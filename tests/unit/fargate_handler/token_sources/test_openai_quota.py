"""How long a server's quota is used up, as its headers say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from evenflow.fargate_handler.token_sources.openai_failures import quota_used_for, retry_after_of


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({}, 0.0),
        ({"remaining-requests": "1", "reset-requests": "6s"}, 0.0),
        ({"remaining-requests": "0", "reset-requests": "1.5s"}, 1.5),
        ({"remaining-requests": "0", "reset-requests": "20ms"}, 0.02),
        ({"remaining-tokens": "0", "reset-tokens": "0m30s"}, 30.0),
        ({"remaining-tokens": "0", "reset-tokens": "6m0s"}, 60.0),
        ({"remaining-tokens": "0"}, 0.0),
        ({"remaining-tokens": "0", "reset-tokens": "soon"}, 0.0),
        (
            {
                "remaining-requests": "0",
                "reset-requests": "1s",
                "remaining-tokens": "0",
                "reset-tokens": "2s",
            },
            2.0,
        ),
    ],
)
def test_it_is_used_up_for_as_long_as_the_headers_say(said: dict[str, str], seconds: float) -> None:
    headers = {f"x-ratelimit-{name}": value for name, value in said.items()}
    assert quota_used_for(headers) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"x-ratelimit-reset-requests": "1.5s"}, 1.5),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 60.0),
        ({"x-ratelimit-remaining-tokens": "900", "x-ratelimit-reset-tokens": "1s"}, None),
        (
            {
                "x-ratelimit-remaining-requests": "99",
                "x-ratelimit-reset-requests": "50s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "2s",
            },
            2.0,
        ),
        ({"x-ratelimit-reset": "20"}, 20.0),
        ({"x-ratelimit-reset": "soon"}, None),
        ({"retry-after": "0", "x-ratelimit-reset": "20"}, 0.0),
    ],
)
def test_a_refusal_says_when_to_ask_again(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_of(headers) == seconds


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("retry-after", lambda moment: moment.strftime("%a, %d %b %Y %H:%M:%S GMT")),
        ("x-ratelimit-reset", lambda moment: str(moment.timestamp())),
        ("x-ratelimit-reset", lambda moment: str(moment.timestamp() * 1000)),
        ("anthropic-ratelimit-tokens-reset", datetime.isoformat),
    ],
)
def test_it_may_say_it_by_a_moment(name: str, written: Callable[[datetime], str]) -> None:
    told = retry_after_of({name: written(datetime.now(UTC) + timedelta(seconds=50))})
    assert told is not None
    assert 0 < told <= 50
