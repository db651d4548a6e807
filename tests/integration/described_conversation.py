"""A conversation over a WebSocket, each of whose frames, in both directions, is as the AsyncAPI
document describes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tests.integration.asyncapi_frames import AsyncApiFrames
from tests.integration.chat_client import COMPACT, V1, ChatSession, call
from tests.integration.raw_websocket import CLOSE, TEXT, RawWebSocket, text_frame
from tests.integration.realtime_client import PATH, REALTIME
from tests.integration.server_process import Server

_CHANNELS = {
    V1: ("/ws", "chat", "sendV1"),
    COMPACT: ("/ws", "chat", "sendCompact"),
    REALTIME: (PATH, "realtime", "send"),
}


class DescribedConversation:
    """A connection whose frames are checked as they come and go."""

    def __init__(self, raw: RawWebSocket, frames: AsyncApiFrames, protocol: str) -> None:
        self._raw = raw
        self._frames = frames
        _, channel, sends = _CHANNELS[protocol]
        self._receives, self._sends = f"{channel}.receive", f"{channel}.{sends}"

    def say(self, kind: str, **fields: object) -> None:
        """Send a frame that is described."""
        frame = {"type": kind, **fields}
        self._frames.check(self._receives, frame)
        self._raw.write(text_frame(frame))

    def mumble(self, frame: object) -> None:
        """Send one that isn't."""
        with pytest.raises((AssertionError, KeyError)):
            self._frames.check(self._receives, frame)
        self._raw.write(text_frame(frame))

    async def hear(self, *kinds: str) -> dict[str, Any]:
        """The next frame of one of these types; deltas of the compact subprotocol have none."""
        while True:
            came = await self._raw.frame()
            assert came.opcode != CLOSE, f"closed with {came.close_code} instead of {kinds}"
            if came.opcode != TEXT:
                continue
            frame: Any = came.json
            self._frames.check(self._sends, frame)
            if isinstance(frame, dict) and frame["type"] in kinds:
                return frame


@asynccontextmanager
async def conversation(
    server: Server, session: ChatSession, frames: AsyncApiFrames, protocol: str
) -> AsyncIterator[DescribedConversation]:
    """Over a socket that takes little at a time."""
    async with await RawWebSocket.connect(server.port, receive_buffer=2048) as raw:
        assert (
            await raw.handshake(session.token, protocol=protocol, path=_CHANNELS[protocol][0])
            == 101
        )
        talk = DescribedConversation(raw, frames, protocol)
        await talk.hear("session.ready")
        yield talk


async def described_frames(server: Server) -> AsyncApiFrames:
    """The frames as the server describes them."""
    async with aiohttp.ClientSession() as http:
        return AsyncApiFrames((await call(http, "GET", f"{server.http_url}/asyncapi.json")).json)
