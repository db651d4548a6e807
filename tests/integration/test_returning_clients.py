"""One sender that comes back without end doesn't use up the budget of others."""

from __future__ import annotations

import time

import pytest

from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import RawWebSocket

_SECRET = "0123456789abcdef" * 2
_PER_SECOND = 20
_TRIES = 200


async def _status(server: LocalServer, session: str, address: str, age: float) -> int:
    tokens = SessionTokens({"k": _SECRET.encode()})
    token, _ = tokens.issue(Channel("public", "demo", session), time.time() - age, 3_600)
    async with await RawWebSocket.connect(server.port) as raw:
        return await raw.handshake(token, headers=f"X-Forwarded-For: {address}\r\n")


@pytest.mark.parametrize(
    ("session", "age"), [("s", 120.0), ("s{}", 120.0), ("s", 0.0)], ids=["one", "many", "new"]
)
async def test_the_first_try_of_others_succeeds(serve: Serve, session: str, age: float) -> None:
    server = await serve(returning_connections_per_second=_PER_SECOND, token_keys=f"k:{_SECRET}")
    refused = 0
    for number in range(_TRIES):
        answer = await _status(server, session.format(number), "203.0.113.1", age)
        refused += answer == 503
        if number % 40 == 39:
            assert await _status(server, f"h{number}", f"198.51.100.{number}", 120.0) == 101
    assert refused > 0, "there is a bound"
