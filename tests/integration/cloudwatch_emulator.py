"""CloudWatch as ministack plays it, behind a port in the test's own loop.

Tried beside moto's server, which takes values with counts by storing every single one (six million
for a busy minute), answers any percentile with a 500, and mixes namespaces where a query has
dimensions. ministack weighs values by their counts, interpolates percentiles, and tells a metric by
all of its dimensions. What it leaves out: a query's unit (it is compared here by what
`GetMetricStatistics` says was stored), the limits of a request, metric math, and treating missing
data in alarms.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from ministack.services import cloudwatch


@asynccontextmanager
async def cloudwatch_emulator() -> AsyncIterator[str]:
    """Run one that has nothing yet; yields its endpoint. There is one at a time."""
    cloudwatch.reset()
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/{path:.*}", _answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _answer(request: web.Request) -> web.Response:
    headers = {name.lower(): value for name, value in request.headers.items()}
    body = await request.read()  # aiohttp has unpacked it
    status, told, answer = await cloudwatch.handle_request("POST", request.path, headers, body, {})
    content = answer if isinstance(answer, bytes) else answer.encode()
    return web.Response(status=status, headers=told, body=content)
