"""A client of `/realtime`, on a WebSocket library that isn't ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from evenflow.stream_core.protocols.realtime.dialect import REALTIME_SERVER_MESSAGE
from tests.integration.answer import Frame
from tests.integration.chat_client import ChatSession
from tests.integration.frame_reader import FRAME_SECONDS, FrameReader

REALTIME = "evenflow.realtime.v1"
PATH = "/realtime"
OTHER_PATH = "/v1/realtime"


def realtime_url(session: ChatSession, path: str = PATH) -> str:
    """Where it is, beside `/ws`."""
    return session.ws_url.removesuffix("/ws") + path


class Spoken:
    """What a client makes of the frames of one response; each index must come exactly once.

    Args:
        last, text: what is held already.
    """

    def __init__(self, last: int = -1, text: str = "") -> None:
        self.last = last
        self.text = text
        self.frames: list[Frame] = []
        self.epoch = 1
        """The newest owner that a frame told of."""
        self.restarts: list[Frame] = []
        self.parts: list[Frame] = []
        self.final: Frame | None = None

    def take(self, frame: Frame) -> None:
        """The next frame of this response."""
        assert self.final is None, f"{frame} came after {self.final}"
        self.frames.append(frame)
        self.epoch = max(self.epoch, frame.get("epoch", 1))
        if frame["type"] == "token":
            assert frame.get("from", frame["index"]) == self.last + 1, (
                f"{frame} does not follow index {self.last}"
            )
            self.last, self.text = frame["index"], self.text + frame["text"]
        elif frame["type"] == "event":
            assert frame.get("from", frame["index"]) == self.last + 1
            self.last = frame["index"]
            self.parts.append(frame)
        elif frame["type"] == "restarted":
            # An index of -1 is no entry of the log: everything comes again.
            assert frame["index"] in (self.last + 1, -1), (
                f"{frame} does not follow index {self.last}"
            )
            assert frame["from_index"] in (self.last, -1), f"{frame} cuts inside the text"
            if frame["from_index"] == -1:
                self.text = ""
            self.last = frame["index"]
            self.restarts.append(frame)
        elif frame["type"] == "final":
            assert frame["last_index"] == self.last
            self.final = frame


class RealtimeConnection(FrameReader):
    """An open connection.

    Args:
        websocket: the socket, `session.ready` not read yet.
    """

    def __init__(self, websocket: ClientConnection) -> None:
        self.websocket = websocket
        self.ready: Frame = {}
        self.spoken: dict[str, Spoken] = {}
        self.other: list[Frame] = []
        """Frames that belong to no response."""

    async def send(self, kind: str, **fields: object) -> None:
        """Send a frame."""
        await self.websocket.send(json.dumps({"type": kind, **fields}))

    async def receive(self, seconds: float = FRAME_SECONDS) -> Frame:
        """The next frame, which must be one of the documented; sorted into its response."""
        async with asyncio.timeout(seconds):
            data = await self.websocket.recv()
        assert isinstance(data, str), "the server sent a binary frame"
        frame: Frame = json.loads(data)
        told = REALTIME_SERVER_MESSAGE.validate_json(data)
        # A part writes the number 0 of a call, which its model leaves out.
        whole = json.loads(told.to_json()) | ({"call": 0} if frame.get("call") == 0 else {})
        assert whole == frame, "it has fields that its model doesn't have"
        if frame["type"] == "started":
            self.spoken.setdefault(frame["response_id"], Spoken(frame["next_index"] - 1))
        elif frame["type"] in ("token", "event", "restarted", "final"):
            self.spoken[frame["response_id"]].take(frame)
        else:
            self.other.append(frame)
        return frame

    async def next_of(self, kind: str, seconds: float = FRAME_SECONDS) -> Frame:
        """The next frame of this type; others are sorted in passing."""
        async with asyncio.timeout(seconds):
            while (frame := await self.receive(seconds))["type"] != kind:
                pass
        return frame

    async def start(
        self, message_id: str, previous: str | None, text: str, **fields: object
    ) -> str:
        """Ask; the response's id."""
        await self.send("start", id=message_id, previous=previous, text=text, **fields)
        started = await self.next_of("started")
        assert started["id"] == message_id
        response_id: str = started["response_id"]
        return response_id

    async def resume(self, response_id: str, held: Spoken, **fields: object) -> Frame:
        """Resume a response behind what is held."""
        self.spoken[response_id] = held
        await self.send("resume", response_id=response_id, after=held.last, **fields)
        return await self.next_of("started")

    async def reach(self, response_id: str, index: int) -> Spoken:
        """Read until this index is there."""
        while self.spoken[response_id].last < index:
            await self.receive()
        return self.spoken[response_id]

    async def whole(self, response_id: str, seconds: float = FRAME_SECONDS) -> Spoken:
        """Read until this response has ended."""
        async with asyncio.timeout(seconds):
            while self.spoken[response_id].final is None:
                await self.receive(seconds)
        return self.spoken[response_id]


@asynccontextmanager
async def realtime(
    session: ChatSession, query: str = "", path: str = PATH, **options: Any
) -> AsyncIterator[RealtimeConnection]:
    """Open a connection and read its `session.ready`."""
    names = [Subprotocol(REALTIME), Subprotocol(f"bearer.{session.token}")]
    settings = {
        "subprotocols": names,
        "proxy": None,
        "ping_interval": None,
        "close_timeout": 2,
    } | options
    async with connect(realtime_url(session, path) + query, **settings) as websocket:
        connection = RealtimeConnection(websocket)
        connection.ready = await connection.next_of("session.ready")
        yield connection
