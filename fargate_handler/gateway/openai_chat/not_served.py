"""The calls of OpenAI's API that aren't served, and what to use instead."""

from __future__ import annotations

import asyncio
from typing import cast

import orjson
from aiohttp import web
from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from evenflow.fargate_handler.gateway.http.answers import error_answer
from evenflow.stream_core.base.errors import NotFound
from evenflow.stream_core.protocols.realtime.not_served import (
    CLOSE_CODE,
    CLOSE_REASON,
    realtime_not_served,
)

_ADVICE = {
    "completions": (
        "the legacy completions are not served here; use POST /v1/chat/completions, "
        "with the prompt as a message: "
        '`messages=[{"role": "user", "content": prompt}]`'
    ),
    "embeddings": (
        "embeddings are not served here, and nothing that takes their place: this answers "
        "conversations, by POST /v1/chat/completions; ask a server of embeddings"
    ),
}

PATH = f"/v1/{{call:{'|'.join(_ADVICE)}}}{{rest:(/.*)?}}"
"""The path of these calls, and of all below them."""


async def not_served(request: web.Request) -> web.Response:
    """Answer with a 404 that says what to use. It needs no key."""
    call = request.match_info["call"]
    error = NotFound(f"{_ADVICE[call]}. Nothing was generated", code="path_not_found")
    return error_answer(error)


# How long a client may take to answer the close frame. Then it is disconnected.
_CLOSE_SECONDS = 5.0
_MOST_IGNORED = 100


class RealtimeRefusal(WSListener):
    """Refuses OpenAI's Realtime API."""

    __slots__ = ("_ignored", "stopped")

    def __init__(self) -> None:
        self._ignored = 0
        self.stopped = False
        """Whether nothing more is read."""

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Send the refusal, and close."""
        transport.send(WSMsgType.TEXT, orjson.dumps(realtime_not_served()))
        transport.send_close(cast("WSCloseCode", CLOSE_CODE), CLOSE_REASON)
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, transport.disconnect, False)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Take the client's close frame. Others are ignored, and many of them not even read."""
        if frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()
        self._ignored += 1
        if self._ignored == _MOST_IGNORED:
            self.stopped = True
            transport.underlying_transport.pause_reading()
