"""The body of a request of OpenAI's API: larger than a message, and bounded on its own."""

from __future__ import annotations

import asyncio

from aiohttp import web

from fargate_handler.orchestrator.held_requests import Reading, memory_of
from stream_core.http_contract import body_too_large
from stream_core.limits import Limits


async def read_body(request: web.Request, limits: Limits, reading: Reading) -> bytearray:
    """The whole body. It isn't kept with the request, which lives as long as its answer.

    Raises:
        TooLarge: it is longer than a request may be.
        Overloaded: the node has no room for it.
        HTTPRequestTimeout: it came too slowly.
    """
    if (request.content_length or 0) > limits.request_bytes:
        raise body_too_large()
    body = bytearray()
    try:
        # What has come counts: who announces much and sends nothing takes nobody's room, and not for ever.
        async with asyncio.timeout(limits.pong_timeout_seconds):
            while chunk := await request.content.readany():
                reading.grow_to(len(body) + len(chunk))
                body.extend(chunk)
                if len(body) > limits.request_bytes:
                    raise body_too_large()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    reading.grow_to(memory_of(body))
    return body
