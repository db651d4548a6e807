"""The page's policy: nothing but its own origin, and nothing inline."""

from __future__ import annotations

import pytest

from evenflow.stream_core.auth.allowed_origins import page_policy


def directives(policy: str) -> dict[str, list[str]]:
    return {name: sources for name, *sources in (part.split() for part in policy.split(";"))}


@pytest.mark.parametrize("connections", [(), ("wss://chat.example.com",)])
def test_everything_is_the_pages_own(connections: tuple[str, ...]) -> None:
    policy = page_policy(*connections)
    told = directives(policy)
    assert (
        told["default-src"]
        == told["base-uri"]
        == told["form-action"]
        == told["frame-ancestors"]
        == ["'none'"]
    )
    assert told["script-src"] == told["style-src"] == ["'self'"]
    assert told["connect-src"] == ["'self'", *connections]
    assert "unsafe" not in policy
    assert "\n" not in policy
