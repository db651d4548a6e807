"""The addresses that a client is told: those that are set, otherwise the one that it called."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
    assert context.public_urls("http", host) == (told, http_url or f"http://{host}")


@pytest.mark.parametrize(
    "host", ["", "<script>", "a b", "x; script-src *", "user@host", "x" * 300, "[::1", "a:\udcff"]
)
async def test_a_wrong_host_is_not_repeated(host: str) -> None:
    told = ("ws://127.0.0.1:8080/ws", "http://127.0.0.1:8080")
    assert Gateway().context.public_urls("http", host) == told


async def test_a_client_that_came_by_https_is_told_so() -> None:
    told = ("wss://chat.example/ws", "https://chat.example")
    assert Gateway().context.public_urls("https", "chat.example") == told
