"""Clients of OpenAI's Realtime API are let in on either port, told that it isn't served, let go."""

from __future__ import annotations

import asyncio
from typing import cast

import orjson
from aiohttp import web
from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from stream_core.openai_realtime import CLOSE_CODE, CLOSE_REASON, SUBPROTOCOL, not_served

# Who doesn't answer the close frame is cut off after so long.
_CLOSE_SECONDS = 5.0


class RealtimeRefusal(WSListener):
    """On the WebSocket port."""

    __slots__ = ()

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Say it, and close."""
        transport.send(WSMsgType.TEXT, orjson.dumps(not_served()))
        transport.send_close(cast("WSCloseCode", CLOSE_CODE), CLOSE_REASON)
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, transport.disconnect, False)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """The close frame is answered; nothing else is of interest."""
        if frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()


async def refuse_realtime(request: web.Request) -> web.WebSocketResponse:
    """On the HTTP port."""
    websocket = web.WebSocketResponse(protocols=(SUBPROTOCOL,), timeout=_CLOSE_SECONDS)
    await websocket.prepare(request)
    await websocket.send_json(not_served())
    await websocket.close(code=CLOSE_CODE, message=CLOSE_REASON.encode())
    return websocket
