"""The addresses that a client is told: those that are set, otherwise the one that it called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evenflow.stream_core.base.client_address import CalledUrl
from tests.unit.fargate_handler.gateway.client_harness import Gateway


@pytest.mark.parametrize(
    ("host", "http_url", "ws_url", "ws_port", "told"),
    [
        ("127.0.0.1:8080", None, None, None, "ws://127.0.0.1:8080/ws"),
        ("[::1]:8080", None, None, None, "ws://[::1]:8080/ws"),
        ("chat.example", None, None, None, "ws://chat.example/ws"),
        ("10.0.0.7:8080", "https://chat.example", None, None, "wss://chat.example/ws"),
        ("10.0.0.7:8080", "https://a.b/chat", None, None, "wss://a.b/chat/ws"),
        ("127.0.0.1:8080", None, None, 8081, "ws://127.0.0.1:8081/ws"),
        ("[::1]", "https://chat.example", None, 8081, "ws://[::1]:8081/ws"),
        ("10.0.0.7:8080", "https://a.b", "wss://ws.a.b/", 8081, "wss://ws.a.b/"),
    ],
)
async def test_the_websocket_s_address(
    host: str, http_url: str | None, ws_url: str | None, ws_port: int | None, told: str
) -> None:
    context = replace(Gateway().context, http_url=http_url, ws_url=ws_url, ws_port=ws_port)
    called = CalledUrl("http", host)
    assert context.public_urls(called) == (told, http_url or f"http://{host}")


@pytest.mark.parametrize(("prefix", "ws_url"), [("", "/ws"), ("/ev", "/ev/ws")])
async def test_where_the_host_is_not_known_both_are_relative(prefix: str, ws_url: str) -> None:
    for ws_port in (None, 8081):
        context = replace(Gateway().context, ws_port=ws_port)
        assert context.public_urls(CalledUrl("https", "", prefix)) == (ws_url, prefix)


async def test_a_client_that_came_by_https_below_a_path_is_told_so() -> None:
    told = ("wss://chat.example/ev/ws", "https://chat.example/ev")
    assert Gateway().context.public_urls(CalledUrl("https", "chat.example", "/ev")) == told
