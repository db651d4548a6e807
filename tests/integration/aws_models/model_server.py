"""The HTTP side: both services' calls, their signatures, and what the server sees of each
connection's end.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.integration.aws_models.demo_reply import bedrock_demo, sagemaker_demo
from tests.integration.aws_models.reply import Reply, clears, refuses
from tests.integration.aws_models.signature import Credentials, refusal_of

_REMEMBERED = 10_000


@dataclass
class ModelServer:
    """Answers with the next of `replies`, and with the last one again; without any as
    `demo_reply` says.
    """

    credentials: Credentials = field(default_factory=Credentials)
    together: int = 0
    """No answer begins before so many calls have been open at once."""
    url: str = ""
    replies: list[Reply] = field(default_factory=list)
    requests: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    open: int = 0
    """Calls that are being answered."""
    hung_up_at: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    """`time.monotonic()` of each connection that its client closed in the middle of an answer."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _gathered: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: web.AppRunner | None = None

    def will(self, *replies: Reply) -> None:
        """Set what is answered from now on."""
        self.replies = list(replies)
        self.requests.clear()
        self.hung_up_at.clear()

    @property
    def connections(self) -> int:
        """Connections that are open, idle ones too."""
        server = self._runner.server if self._runner else None
        return len(server.connections) if isinstance(server, web.Server) else 0

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point any SDK at this server."""
        return self.credentials.environment(self.url)

    async def until_open(self, wanted: int, seconds: float = 20.0) -> None:
        """Wait until so many calls are being answered."""
        async with asyncio.timeout(seconds):
            while self.open != wanted:
                self._changed.clear()
                await self._changed.wait()

    async def start(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen on 127.0.0.1."""
        app = web.Application(client_max_size=2**26)
        app.add_routes(
            [
                web.post("/model/{name}/converse-stream", self._bedrock),
                web.post("/guardrail/{name}/version/{version}/apply", self._guardrail),
                web.post("/endpoints/{name}/invocations-response-stream", self._sagemaker),
            ]
        )
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=tls, backlog=1024).start()
        # Certificates are made out to the name.
        host = "https://localhost" if tls else "http://127.0.0.1"
        self.url = f"{host}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Close everything."""
        if self._runner is not None:
            await self._runner.cleanup()

    # -- what is called ----------------------------------------------------------------------------

    async def _bedrock(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        return await self._answer(request, "bedrock", body, lambda: _asked_bedrock(request, body))

    async def _guardrail(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        return await self._answer(request, "bedrock", body, clears)

    async def _sagemaker(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        return await self._answer(
            request, "sagemaker", body, lambda: _asked_sagemaker(request, body)
        )

    async def _answer(
        self, request: web.Request, service: str, body: bytes, demo: Callable[[], Reply]
    ) -> web.StreamResponse:
        refusal = refusal_of(
            self.credentials, service, request.method, request.raw_path, request.headers, body
        )
        if refusal is not None:
            return await self._send(refuses(403, *refusal), request)
        self.requests.append({"name": unquote(request.match_info["name"]), **json.loads(body)})
        reply = self._next_reply() if self.replies else demo()
        self.open += 1
        self._changed.set()
        if self.open >= self.together:
            self._gathered.set()
        try:
            await self._gathered.wait()
            return await self._send(reply, request)
        except (asyncio.CancelledError, ConnectionError):
            self.hung_up_at.append(time.monotonic())
            raise
        finally:
            self.open -= 1
            self._changed.set()

    def _next_reply(self) -> Reply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    async def _send(self, reply: Reply, request: web.Request) -> web.StreamResponse:
        if reply.then == "silence before the head":
            await asyncio.sleep(60)
        response = web.StreamResponse(
            status=reply.status, headers={"x-amzn-RequestId": "1-of-the-tests", **reply.headers}
        )
        await response.prepare(request)
        for wait, piece in reply.pieces:
            if wait:
                await asyncio.sleep(wait)
            await response.write(piece)
        if reply.then == "break":
            assert request.transport is not None
            request.transport.abort()
        elif reply.then == "silence":
            await asyncio.sleep(60)
        return response


def _asked_bedrock(request: web.Request, body: bytes) -> Reply:
    question = json.loads(body)["messages"][-1]["content"][-1]["text"]
    return bedrock_demo(unquote(request.match_info["name"]), question)


def _asked_sagemaker(request: web.Request, body: bytes) -> Reply:
    question = json.loads(body)["messages"][-1]["content"].rpartition("\n\n")[2]
    return sagemaker_demo(request.match_info["name"], question)


@asynccontextmanager
async def model_server(
    tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[ModelServer]:
    """Serve one; port 0 is a free one."""
    server = ModelServer()
    await server.start(port, tls)
    try:
        yield server
    finally:
        await server.stop()
