"""A tiny model server whose bytes are the test's: what a real one does only on a bad day."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


def chunk(text: str | None = None, **choice: object) -> bytes:
    """One event with a chunk of an answer."""
    delta = {} if text is None else {"content": text}
    body = {
        "id": "c1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, **choice}],
    }
    return event(body)


def event(body: object) -> bytes:
    """One event with a JSON body."""
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
END = chunk(finish_reason="stop") + DONE


@dataclass
class Reply:
    """What is sent: `pieces` of bytes, `gap` seconds apart; then the end of the body, a broken
    connection or silence.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    content_type: str = "text/event-stream"
    gap: float = 0.0
    then: str = "end"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class ScriptedModel:
    """Answers each request with the next reply, and the last one again when there are no more."""

    wait: Callable[[float], Awaitable[None]] = asyncio.sleep
    url: str = ""
    replies: list[Reply] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    connections: set[object] = field(default_factory=set)
    """Each that a request came over."""
    open: int = 0
    """Requests that are being answered."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def will(self, *replies: Reply) -> None:
        """Set what is answered from now on."""
        self.replies = list(replies)
        self.requests.clear()
        self.headers.clear()

    async def until_open(self, wanted: int, seconds: float = 20.0) -> None:
        """Wait until so many requests are being answered."""
        async with asyncio.timeout(seconds):
            while self.open != wanted:
                self._changed.clear()
                await self._changed.wait()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/chat/completions`."""
        self.requests.append(await request.json())
        self.headers.append(dict(request.headers))
        self.connections.add(request.transport)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        self.open += 1
        self._changed.set()
        try:
            return await self._send(reply, request)
        finally:
            self.open -= 1
            self._changed.set()

    async def _send(self, reply: Reply, request: web.Request) -> web.StreamResponse:
        if reply.then == "silence before the head":
            await asyncio.sleep(60)
        response = web.StreamResponse(
            status=reply.status, headers={"Content-Type": reply.content_type} | reply.headers
        )
        await response.prepare(request)
        for piece in reply.pieces:
            await response.write(piece)
            await (self.wait(reply.gap) if reply.gap else asyncio.sleep(0))
        if reply.then == "break":
            assert request.transport is not None
            request.transport.abort()
        elif reply.then == "silence":
            await asyncio.sleep(60)
        return response


@asynccontextmanager
async def scripted_model(
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedModel]:
    """Serve one on a free port.

    Args:
        wait: for the gaps between pieces; `serve.time_passes` turns a handler's time instead.
    """
    model = ScriptedModel(wait)
    app = web.Application(client_max_size=2**26)
    app.add_routes([web.post("/v1/chat/completions", model.answer)])
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    model.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield model
    finally:
        await runner.cleanup()
