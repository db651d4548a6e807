"""What a server tells its clients, and counts, behind proxies: by what they write into requests."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from evenflow.fargate_handler.gateway.http.cookies import EVENTS_COOKIE
from tests.integration.chat_client import call, chat_message, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import RawWebSocket
from tests.integration.test_events_cookie import cookies_of

_BURST = 6
"""Sessions of an address that may open one in ten seconds."""
_UNNAMED = "10.0.0.5"
_OTHERS = "192.0.2.1"
"""As trusted proxies: not this machine."""


async def _opened(server: LocalServer, *lines: str, version: str = "1.1") -> dict[str, Any]:
    """What `POST /session` answers, with these headers. `PORT` is the server's."""
    head = [f"POST /session HTTP/{version}", *lines, "Content-Length: 0", "Connection: close"]
    if not any(line.startswith("Host:") for line in lines):
        head.insert(1, "Host: 127.0.0.1:PORT")
    sent = "\r\n".join(head).replace("PORT", str(server.port))
    async with await RawWebSocket.connect(server.port) as raw:
        raw.write(f"{sent}\r\n\r\n".encode())
        await raw.read_head()
        opened: dict[str, Any] = json.loads(await raw.read_body())
        assert raw.status == 201, opened
        return opened


@pytest.mark.parametrize(
    ("headers", "ws_url", "http_url"),
    [
        ([], "ws://127.0.0.1:PORT/ws", "http://127.0.0.1:PORT"),
        (
            ["X-Forwarded-Proto: https", "X-Forwarded-Host: chat.test", "X-Forwarded-Prefix: /ev"],
            "wss://chat.test/ev/ws",
            "https://chat.test/ev",
        ),
        (
            ['Forwarded: for=203.0.113.9;proto=https;host="chat.test:8443"'],
            "wss://chat.test:8443/ws",
            "https://chat.test:8443",
        ),
        # It passes `Host` on, as haproxy does.
        (
            ["Host: 10.0.0.9", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https"],
            "wss://10.0.0.9/ws",
            "https://10.0.0.9",
        ),
        (["Host: 10.0.0.9:81", "Via: 1.1 x"], "ws://10.0.0.9:81/ws", "http://10.0.0.9:81"),
        # The page's own origin says more than `Host` and the connection.
        (["Origin: https://127.0.0.1:PORT"], "wss://127.0.0.1:PORT/ws", "https://127.0.0.1:PORT"),
        # `Host` is what the proxy calls this server.
        (["X-Forwarded-For: 203.0.113.9"], "/ws", ""),
        (["X-Forwarded-Prefix: /ev"], "/ev/ws", "/ev"),
        (["Origin: http://chat.test", "Content-Type: application/json"], "/ws", ""),
        (["Host: <script>"], "/ws", ""),
    ],
)
async def test_clients_are_told_the_address_that_they_used_or_none(
    serve: Serve, headers: list[str], ws_url: str, http_url: str
) -> None:
    server = await serve(allowed_hosts="*")
    opened = await _opened(server, *headers)
    port = str(server.port)
    assert (opened["ws_url"], opened["http_url"]) == (
        ws_url.replace("PORT", port),
        http_url.replace("PORT", port),
    )


async def test_nginx_without_settings_makes_up_no_address_for_clients(
    shared_server: LocalServer,
) -> None:
    """It calls by HTTP/1.0, with the address of this server as `Host`."""
    opened = await _opened(shared_server, version="1.0")
    assert (opened["ws_url"], opened["http_url"]) == ("/ws", "")


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-Proto: https", "X-Forwarded-Host: evil.test", "Forwarded: proto=https;host=evil"],
)
async def test_a_proxy_that_is_not_trusted_is_not_believed(serve: Serve, header: str) -> None:
    server = await serve(trusted_proxies=_OTHERS)
    opened = await _opened(server, header)
    assert (opened["ws_url"], opened["http_url"]) == ("/ws", "")


async def test_what_is_set_is_told_whatever_proxies_say(serve: Serve) -> None:
    server = await serve(public_http_url="https://chat.test/ev")
    opened = await _opened(server, "X-Forwarded-Host: evil.test", "X-Forwarded-Prefix: /x")
    assert (opened["ws_url"], opened["http_url"]) == (
        "wss://chat.test/ev/ws",
        "https://chat.test/ev",
    )


async def test_the_page_may_connect_to_its_own_origin_where_no_address_is_known(
    http: aiohttp.ClientSession, shared_server: LocalServer
) -> None:
    headers = {"X-Forwarded-For": "203.0.113.9"}
    page = await http.get(shared_server.http_url, headers=headers)
    assert "connect-src 'self';" in page.headers["Content-Security-Policy"]


# -- proxies that nobody has named -----------------------------------------------------------------


async def test_one_warning_names_the_setting_and_the_proxy(serve: Serve) -> None:
    server = await serve(trusted_proxies=_OTHERS)
    for visitor in range(3):
        await _opened(server, f"X-Forwarded-For: 203.0.113.{visitor}")
    (line,) = [line for line in server.log.splitlines() if "EVENFLOW_TRUSTED_PROXIES" in line]
    assert "127.0.0.1" in line
    assert "WARNING" in line


async def test_a_refusal_for_their_shared_address_says_so_to_the_client_and_the_operator(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = await serve(sessions_per_address_per_second=0.1)
    url, headers = f"{server.http_url}/session", {"X-Forwarded-For": f"203.0.113.9, {_UNNAMED}"}
    for _ in range(_BURST):
        assert (await call(http, "POST", url, {}, headers=headers)).status == 201
    refused = await call(http, "POST", url, {}, headers=headers)
    assert (refused.status, refused.error["code"]) == (429, "address_sessions")
    assert "EVENFLOW_TRUSTED_PROXIES" in refused.error["message"]
    assert _UNNAMED not in refused.error["message"]
    lines = [line for line in server.log.splitlines() if "address_sessions" in line]
    assert lines
    assert all(f"EVENFLOW_TRUSTED_PROXIES does not name the proxy {_UNNAMED}" in it for it in lines)


async def test_a_refusal_of_who_comes_without_a_proxy_does_not(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = await serve(sessions_per_address_per_second=0.1)
    url, headers = f"{server.http_url}/session", {"X-Forwarded-For": "203.0.113.9"}
    for _ in range(_BURST):
        assert (await call(http, "POST", url, {}, headers=headers)).status == 201
    refused = await call(http, "POST", url, {}, headers=headers)
    assert "EVENFLOW_TRUSTED_PROXIES" not in f"{refused.error['message']}{server.log}"


# -- below a path ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "header", "prefix"),
    [
        ({}, {"X-Forwarded-Prefix": "/ev"}, "/ev"),
        ({"public_http_url": "https://chat.test/a/b/"}, {}, "/a/b"),
        ({"public_http_url": "https://chat.test"}, {"X-Forwarded-Prefix": "/ev"}, ""),
    ],
)
async def test_the_cookie_for_events_is_sent_below_the_path(
    serve: Serve,
    opened: OpenSession,
    setting: dict[str, Any],
    header: dict[str, str],
    prefix: str,
) -> None:
    server = await serve(**setting)
    session = (await opened(server)).at(server)
    message = {**chat_message("m1", None, demo(tokens=1)), "cookie": True}
    asked = await session.call("POST", "/chat/message", message, headers=header)
    path = f"{prefix}/chat/message/{asked.json['response_id']}/events"
    assert cookies_of(asked)[EVENTS_COOKIE]["path"] == path


# -- long heads ------------------------------------------------------------------------------------


async def _called(raw: RawWebSocket, path: str, header_bytes: int, more: str = "") -> Any:
    header = f"Cookie: {'c' * header_bytes}"
    raw.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}{header}\r\n\r\n".encode())
    await raw.read_head()
    return json.loads(await raw.read_body())


async def test_a_header_of_16_kib_is_taken_and_a_longer_one_refused_in_the_caller_s_shape(
    shared_server: LocalServer,
) -> None:
    for path in ("/health", "/v1/messages"):
        async with await RawWebSocket.connect(shared_server.port) as raw:
            await _called(raw, "/health", 16_384)
            assert raw.status == 200
            answer = await _called(raw, path, 16_385)
            assert raw.status == 431
            if path == "/health":
                assert checked_error(answer)["code"] == "head_too_large"
            else:
                assert (answer["type"], answer["error"]["type"]) == (
                    "error",
                    "invalid_request_error",
                )
    assert "refused head over http: head_too_large" in shared_server.log


async def test_a_head_is_refused_however_long_it_is(shared_server: LocalServer) -> None:
    """What comes behind the answer is read, so that no reset takes the answer away."""
    async with await RawWebSocket.connect(shared_server.port) as raw:
        answer = await _called(raw, "/v1/models", 1_000_000)
        assert (raw.status, checked_error(answer)["code"]) == (431, "head_too_large")


async def test_the_head_of_a_handshake_is_bounded_as_a_whole(shared_server: LocalServer) -> None:
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    async with await RawWebSocket.connect(shared_server.port) as raw:
        answer = await _called(raw, "/ws", 16_380, upgrade)
        assert (raw.status, checked_error(answer)["code"]) == (431, "head_too_large")
