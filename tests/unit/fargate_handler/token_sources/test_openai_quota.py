"""How long a server's quota is used up, as its headers say."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.token_sources.openai_quota import quota_used_for


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
