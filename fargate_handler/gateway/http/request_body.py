"""Reads the body of a request, as long as it comes fast enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.verified_request import address_of, credentials_of
from evenflow.stream_core.base.errors import Overloaded, RequestTimeout
from evenflow.stream_core.http.content_encoding import ContentDecoder
from evenflow.stream_core.http.http_contract import body_too_large

_BYTES_PER_TURN = 262_144
"""How many bytes are decompressed in one turn of the event loop: about a millisecond."""


class ArrivingBody:
    """The body of a request, as it arrives. It must bring a minimum in each `body_seconds`."""

    def __init__(self, request: web.Request, context: GatewayContext) -> None:
        self._content = request.content
        self._accepted = context.accepted
        self._turns, self._address = context.accepted.turns, address_of(request, context.site)
        self._credentials = credentials_of(request)
        self._limits = context.limits
        # Most bodies come with their heads, and nothing is waited for.
        self._transport = None if request.content.is_eof() else request.transport
        if self._transport is not None:
            self._accepted.wait_for_body(self._transport, self._address)
        self._begin_window()

    async def chunk(self) -> bytes:
        """The next bytes. Empty at the end.

        Raises:
            RequestTimeout: they came too slowly.
            Overloaded: the node is full.
        """
        if self._transport is not None:
            await self._turns.wait(self._address, self._credentials)
        while not self._content.is_eof():
            try:
                async with asyncio.timeout_at(self._window_ends):
                    chunk = await self._content.readany()
                break
            except TimeoutError:
                self._check_pace()
        else:
            chunk = self._content.read_nowait()
        self._came += len(chunk)
        if not chunk and self._transport is not None and not self._accepted.serve(self._transport):
            raise node_full()
        return chunk

    def _begin_window(self) -> None:
        self._came = 0
        self._window_ends = asyncio.get_running_loop().time() + self._limits.body_seconds

    def _check_pace(self) -> None:
        limits, came = self._limits, self._came
        if came < limits.body_seconds * limits.body_bytes_per_second:
            self._accepted.count_slow_body()
            raise RequestTimeout(
                f"the body came too slowly, {came} bytes in {limits.body_seconds:g} s; nothing was "
                "accepted, send it again",
                code="body_timeout",
                retry_after_ms=1000,
            )
        self._begin_window()


async def read_body(
    request: web.Request,
    context: GatewayContext,
    most: int,
    encodings: Collection[str] = (),
    grow_to: Callable[[int], None] = lambda _length: None,
) -> bytearray:
    """Read the whole body. It is not kept with the request, which lives as long as its answer.

    Args:
        most: the most bytes, decoded.
        encodings: the allowed encodings. Only authenticated senders may send compressed bodies.
        grow_to: called with its growing size. It may raise.

    Raises:
        UnsupportedMediaType: it comes in another encoding.
        TooLarge: it is larger than allowed.
        InvalidRequest: it can't be decoded.
        RequestTimeout: it came too slowly.
        Overloaded: the node is full.
    """
    decoder = ContentDecoder(request.headers.get("Content-Encoding"), encodings, most)
    if (request.content_length or 0) > most:
        raise body_too_large()
    arriving, body, bytes_this_turn = ArrivingBody(request, context), bytearray(), 0
    while chunk := await arriving.chunk():
        for piece in decoder.feed(chunk):
            grow_to(len(body) + len(piece))
            body.extend(piece)
            bytes_this_turn += len(piece)
            if bytes_this_turn >= _BYTES_PER_TURN:
                await asyncio.sleep(0)
                bytes_this_turn = 0
    decoder.end()
    return body


def node_full() -> Overloaded:
    """The error for a request for which there is no place."""
    return Overloaded(
        "this node answers as many requests as it may; nothing was accepted, ask again",
        code="node_full",
        retry_after_ms=1000,
    )
