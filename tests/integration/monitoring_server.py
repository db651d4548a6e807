"""A CloudWatch that fails: it speaks the SDK's wire protocol (JSON, gzipped) and answers
PutMetricData as it is told to.

No emulator throttles or refuses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class MonitoringServer:
    """Requests that it has taken are in `taken`, the others only in `encodings`.

    `failure` is a status and an error code; while `answering` is not set, nothing is answered.
    """

    def __init__(self) -> None:
        self.endpoint = ""
        self.failure: tuple[int, str] | None = None
        self.answering = asyncio.Event()
        self.answering.set()
        self.taken: list[dict[str, Any]] = []
        self.encodings: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        """Take it, or fail."""
        assert request.headers["X-Amz-Target"].endswith(".PutMetricData")
        self.encodings.append(request.headers.get("Content-Encoding", ""))
        body = await request.read()
        await self.answering.wait()
        if self.failure is not None:
            status, code = self.failure
            # As CloudWatch: the code that SDKs know from its older protocol is in the header.
            headers = {"x-amzn-query-error": f"{code};Sender"}
            return web.json_response(
                {"__type": code, "message": "no"}, status=status, headers=headers
            )
        self.taken.append(json.loads(body))  # aiohttp has unpacked it
        return web.json_response({}, content_type="application/x-amz-json-1.0")


@asynccontextmanager
async def monitoring_server() -> AsyncIterator[MonitoringServer]:
    """Run one on a free port of 127.0.0.1."""
    server = MonitoringServer()
    app = web.Application()
    app.router.add_post("/", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        server.answering.set()
        await runner.cleanup()
