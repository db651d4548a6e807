"""Handshakes while the event loop is late: each is accepted, or rejected with a true time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from evenflow.fargate_handler.gateway.connections import address_turns
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.channel import Channel
from tests.integration.chat_client import checked_error
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import RawWebSocket

_SECRET = "0123456789abcdef" * 2
_HEAD_SECONDS = 0.3
_TURN_SECONDS = 0.1


def _compute(seconds: float) -> None:
    """Have the event loop, which is the server's, do nothing else."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@asynccontextmanager
async def _late_loop() -> AsyncIterator[None]:
    """Each turn of the loop takes a tenth of a second."""

    async def compute() -> None:
        while True:
            _compute(_TURN_SECONDS)
            await asyncio.sleep(0)

    task = asyncio.create_task(compute())
    try:
        yield
    finally:
        task.cancel()


class _Clients:
    """Clients that connect, each with a session of its own."""

    def __init__(self, server: LocalServer, stack: AsyncExitStack) -> None:
        self._server = server
        self._stack = stack
        self._tokens = SessionTokens({"k": _SECRET.encode()})
        self.promises = list[float]()

    async def open(self, count: int) -> list[RawWebSocket]:
        """Connections without a handshake."""
        return [
            await self._stack.enter_async_context(await RawWebSocket.connect(self._server.port))
            for _ in range(count)
        ]

    async def shake_hands(self, raw: RawWebSocket, session: str) -> int:
        """Ask for the upgrade. Returns the answer's status; promises are kept in `promises`."""
        token, _ = self._tokens.issue(Channel("public", "demo", session), time.time(), 3_600)
        status = await raw.handshake(token)
        if status == 503:
            error = checked_error(json.loads(await raw.read_body()))
            assert error["code"] == "reconnect_storm"
            wait = error["retry_after_ms"] / 1000
            assert int(raw.headers["retry-after"]) >= wait > 0
            self.promises.append(wait)
        return status


async def test_a_stall_of_the_loop_cuts_no_handshake(serve: Serve) -> None:
    server = await serve(head_seconds=_HEAD_SECONDS, token_keys=f"k:{_SECRET}")
    async with AsyncExitStack() as stack:
        clients = _Clients(server, stack)
        sockets = await clients.open(20)
        while server.sockets < 20:  # noqa: ASYNC110 - the server is in this loop
            await asyncio.sleep(0)
        tasks = [
            asyncio.create_task(clients.shake_hands(raw, f"s{number}"))
            for number, raw in enumerate(sockets)
        ]
        await asyncio.sleep(0)  # all are sent, and none is read
        _compute(3 * _HEAD_SECONDS)
        assert await asyncio.gather(*tasks) == [101] * 20
        assert 'why="head"' not in await server.metrics_page()


async def test_on_a_late_loop_handshakes_wait_or_are_told_when_to_come_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A queue that is shorter than that of the second wave, however fast this machine is.
    monkeypatch.setattr(address_turns, "_LONGEST_WAIT_SECONDS", 0.06)
    server = await serve(head_seconds=2.0, token_keys=f"k:{_SECRET}")
    async with AsyncExitStack() as stack:
        clients = _Clients(server, stack)
        first, second = await clients.open(150), await clients.open(450)
        async with _late_loop():
            earlier = [
                asyncio.create_task(clients.shake_hands(raw, f"a{number}"))
                for number, raw in enumerate(first)
            ]
            await asyncio.wait(earlier, return_when=asyncio.FIRST_COMPLETED)
            statuses = await asyncio.gather(
                *(clients.shake_hands(raw, f"b{number}") for number, raw in enumerate(second))
            )
            assert set(await asyncio.gather(*earlier)) == {101}
            assert set(statuses) <= {101, 503}
            assert 503 in statuses
            assert max(clients.promises) > min(clients.promises), "not all at the same time"
            (returning,) = await clients.open(1)
            assert await clients.shake_hands(returning, "c") == 101, "the queue is short again"
        assert 'why="head"' not in await server.metrics_page()
