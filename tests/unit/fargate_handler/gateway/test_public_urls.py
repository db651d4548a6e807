"""The addresses that a client is told: those that are set, otherwise the one that it called."""

from __future__ import annotations

from dataclasses import replace

import pytest
from yarl import URL

from tests.unit.fargate_handler.gateway.client_harness import Gateway


@pytest.mark.parametrize(
    ("called", "http_url", "ws_url", "ws_port", "told"),
    [
        ("http://127.0.0.1:8080/session", None, None, None, "ws://127.0.0.1:8080/ws"),
        ("http://[::1]:8080/", None, None, None, "ws://[::1]:8080/ws"),
        ("http://chat.example/", None, None, None, "ws://chat.example/ws"),
        ("https://chat.example/", None, None, None, "wss://chat.example/ws"),
        ("http://10.0.0.7:8080/", "https://chat.example", None, None, "wss://chat.example/ws"),
        ("http://10.0.0.7:8080/", "https://a.b/chat", None, None, "wss://a.b/chat/ws"),
        ("http://127.0.0.1:8080/", None, None, 8081, "ws://127.0.0.1:8081/ws"),
        ("http://[::1]:8080/", "https://chat.example", None, 8081, "ws://[::1]:8081/ws"),
        ("http://10.0.0.7:8080/", "https://a.b", "wss://ws.a.b/", 8081, "wss://ws.a.b/"),
    ],
)
async def test_the_websocket_s_address(
    called: str, http_url: str | None, ws_url: str | None, ws_port: int | None, told: str
) -> None:
    context = replace(Gateway().context, http_url=http_url, ws_url=ws_url, ws_port=ws_port)
    base = http_url or called.removesuffix("session").removesuffix("/")
    assert context.public_urls(URL(called)) == (told, base)
