"""The addresses that a client is told: those that are set, otherwise the one that it called."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.stream_core.base.client_address import CalledUrl


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
def test_the_websocket_s_address(
    host: str, http_url: str | None, ws_url: str | None, ws_port: int | None, told: str
) -> None:
    site = Site(8080, http_url, ws_url, ws_port)
    called = CalledUrl("http", host)
    assert site.public_urls(called) == (told, http_url or f"http://{host}")


@pytest.mark.parametrize(("prefix", "ws_url"), [("", "/ws"), ("/ev", "/ev/ws")])
def test_where_the_host_is_not_known_both_are_relative(prefix: str, ws_url: str) -> None:
    for ws_port in (None, 8081):
        site = Site(8080, ws_port=ws_port)
        assert site.public_urls(CalledUrl("https", "", prefix)) == (ws_url, prefix)


def test_a_client_that_came_by_https_below_a_path_is_told_so() -> None:
    told = ("wss://chat.example/ev/ws", "https://chat.example/ev")
    assert Site(8080).public_urls(CalledUrl("https", "chat.example", "/ev")) == told
