"""A client of the contract: sessions, the three transports, and the answers that come over them."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.integration.answer import Answer, Frame
from tests.integration.frame_reader import FRAME_SECONDS, FrameReader
from tests.integration.server_process import Server

V1 = "evenflow.v1"
COMPACT = "evenflow.v1.compact"
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Frame:
        """The body."""
        value: Frame = json.loads(self.body)
        return value

    @property
    def error(self) -> Frame:
        """The error object, after a check of its shape."""
        return checked_error(self.json)


def checked_error(body: Frame) -> Frame:
    """The error object of a body or frame, which must have the contract's one shape."""
    error: Frame = body["error"]
    assert {"type", "code", "message"} <= error.keys(), error
    known = {
        "type",
        "code",
        "message",
        "param",
        "retry_after_ms",
        "status",
        "expected",
        "response_id",
        "limit",
    }
    assert error.keys() <= known, error
    assert all(
        isinstance(error[name], str) and error[name] for name in ("type", "code", "message")
    ), error
    return error


def chat_message(message_id: str, previous_message_id: str | None, text: str) -> Frame:
    """The body of a message."""
    return {
        "message_id": message_id,
        "previous_message_id": previous_message_id,
        "payload": {"text": text},
    }


def demo(**directives: object) -> str:
    """The text that steers the demo model."""
    return " ".join(["#demo", *(f"{name}={value}" for name, value in directives.items())])


class Connection(FrameReader):
    """A WebSocket of a session.

    Args:
        session: whose it is.
        websocket: the open socket, `session.ready` not read yet.
    """

    def __init__(self, session: ChatSession, websocket: ClientConnection) -> None:
        self.session = session
        self.websocket = websocket
        self.ready: Frame = {}
        self.answers: dict[str, Answer] = {}
        self.other: list[Frame] = []
        """Frames that belong to no response."""
        self._streams: dict[int, str] = {}

    async def send(self, kind: str, **fields: object) -> None:
        """Send a frame."""
        await self.websocket.send(json.dumps({"type": kind, **fields}))

    async def message(self, message_id: str, previous: str | None, text: str) -> Frame:
        """Send a message and return its `chat.response.start`."""
        await self.send("chat.message", **chat_message(message_id, previous, text))
        start = await self.next_of("chat.response.start")
        assert start["message_id"] == message_id
        assert start["session_id"] == self.session.session_id
        return start

    async def resume(
        self, response_id: str, after: int, text: str = "", epoch: int | None = None
    ) -> Answer:
        """Resume a response behind `after`, with `text` held; returns what collects it."""
        self.answers[response_id] = answer = Answer(after, text)
        answer.epoch = epoch or 1
        known = {} if epoch is None else {"epoch": epoch}
        await self.send("response.resume", response_id=response_id, after=after, **known)
        start = await self.next_of("chat.response.start")
        assert start["response_id"] == response_id
        assert start["next_index"] == after + 1
        return answer

    async def receive(self, seconds: float = FRAME_SECONDS) -> Frame:
        """The next frame, sorted into its answer."""
        async with asyncio.timeout(seconds):
            frame = self._decode(await self.websocket.recv())
        response_id = frame.get("response_id")
        if frame["type"] == "chat.response.start":
            self.answers.setdefault(frame["response_id"], Answer(frame["next_index"] - 1))
        elif response_id in self.answers and frame["type"].startswith("chat.response."):
            self.answers[response_id].take(frame)
        else:
            self.other.append(frame)
        return frame

    async def next_of(self, *kinds: str, seconds: float = FRAME_SECONDS) -> Frame:
        """The next frame of one of these types; others are sorted in passing."""
        async with asyncio.timeout(seconds):
            while (frame := await self.receive(seconds))["type"] not in kinds:
                pass
        return frame

    async def whole(self, response_id: str, seconds: float = FRAME_SECONDS) -> Answer:
        """Read until this response has ended."""
        async with asyncio.timeout(seconds):
            while response_id not in self.answers or self.answers[response_id].end is None:
                await self.receive(seconds)
        return self.answers[response_id]

    async def reach(self, response_id: str, index: int) -> Answer:
        """Read until this index of the response is there."""
        while response_id not in self.answers or self.answers[response_id].last < index:
            await self.receive()
        return self.answers[response_id]

    async def ask(self, message_id: str, previous: str | None, text: str) -> Answer:
        """Send a message and read its whole answer."""
        start = await self.message(message_id, previous, text)
        return await self.whole(start["response_id"])

    def _decode(self, data: str | bytes) -> Frame:
        assert isinstance(data, str), "the server sent a binary frame"
        frame = json.loads(data)
        if isinstance(frame, list):
            assert self.websocket.subprotocol == COMPACT
            stream, index, said, *first = frame
            frame = {
                "type": f"chat.response.{'delta' if isinstance(said, str) else 'event'}",
                "session_id": self.session.session_id,
                "response_id": self._streams[stream],
                "index": index,
                **({"delta": said} if isinstance(said, str) else said),
            }
            if first:
                (frame["from"],) = first
        elif frame["type"] == "chat.response.start" and "stream" in frame:
            self._streams[frame["stream"]] = frame["response_id"]
        elif frame["type"] in ("chat.response.delta", "chat.response.event"):
            assert self.websocket.subprotocol != COMPACT, (
                "a compact connection was sent a long delta"
            )
        decoded: Frame = frame
        return decoded


class ChatSession:
    """An open session over all transports.

    Args:
        http: the HTTP client.
        opened: the answer of `POST /session`.
        address: what a proxy on this machine says of where HTTP calls come from.
    """

    def __init__(
        self, http: aiohttp.ClientSession, opened: Frame, address: str | None = None
    ) -> None:
        self.session_id: str = opened["session_id"]
        self.token: str = opened["token"]
        self.ws_url: str = opened["ws_url"]
        self.http_url: str = opened["http_url"]
        self._http = http
        self._forwarded = {"X-Forwarded-For": address} if address else {}

    def at(self, server: Server) -> ChatSession:
        """The same session at another task."""
        opened = {"session_id": self.session_id, "token": self.token}
        return ChatSession(
            self._http, {**opened, "ws_url": server.ws_url, "http_url": server.http_url}
        )

    @asynccontextmanager
    async def connect(
        self, protocol: str = V1, query: str = "", **options: Any
    ) -> AsyncIterator[Connection]:
        """Open a WebSocket and read its `session.ready`."""
        names = [Subprotocol(protocol), Subprotocol(f"bearer.{self.token}")]
        settings = {
            "subprotocols": names,
            "proxy": None,
            "ping_interval": None,
            "close_timeout": 2,
        } | options
        async with connect(self.ws_url + query, **settings) as websocket:
            connection = Connection(self, websocket)
            connection.ready = await connection.next_of("session.ready")
            assert websocket.subprotocol == protocol
            yield connection

    async def call(self, method: str, path: str, body: object = None, **options: Any) -> HttpAnswer:
        """An HTTP call with the session's token."""
        headers = {"Authorization": f"Bearer {self.token}", **self._forwarded}
        headers |= options.pop("headers", {})
        return await call(
            self._http, method, self.http_url + path, body, headers=headers, **options
        )

    async def post(self, message_id: str, previous: str | None, text: str) -> HttpAnswer:
        """Send a message over HTTP."""
        return await self.call("POST", "/chat/message", chat_message(message_id, previous, text))

    async def poll(
        self, response_id: str, from_index: int = 0, timeout_ms: int = 10_000
    ) -> HttpAnswer:
        """One long-poll."""
        return await self.call(
            "GET", f"/chat/message/{response_id}?from_index={from_index}&timeout_ms={timeout_ms}"
        )

    async def poll_whole(
        self, response_id: str, timeout_ms: int = 10_000
    ) -> tuple[Frame, str, int]:
        """Poll to the end: the last answer, the text made from all of them by the contract's
        rule, and their number.
        """
        pieces: list[tuple[int, str]] = []
        next_index = polls = 0
        while True:
            answer = (await self.poll(response_id, next_index, timeout_ms)).json
            polls += 1
            assert answer["chunk_index"] == answer["metadata"]["next_index"] - 1 >= next_index - 1
            restarted = answer["metadata"]["restarted"]
            if restarted:
                pieces = [piece for piece in pieces if piece[0] <= restarted["from_index"]]
            pieces.append((answer["chunk_index"], answer["new_text"]))
            next_index = answer["metadata"]["next_index"]
            if answer["status"] in ("completed", "error", "cancelled"):
                return answer, "".join(text for _, text in pieces), polls
            assert "full_text" not in answer

    @asynccontextmanager
    async def events(
        self, response_id: str, **headers: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open the SSE stream; underscores in header names stand for dashes."""
        all_headers = {"Authorization": f"Bearer {self.token}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        url = f"{self.http_url}/chat/message/{response_id}/events"
        async with self._http.get(url, headers=all_headers) as answer:
            yield answer


async def call(
    http: aiohttp.ClientSession, method: str, url: str, body: object = None, **options: Any
) -> HttpAnswer:
    """An HTTP call; `body` is sent as JSON, or as it is when it is bytes."""
    if body is not None:
        options["data"] = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    if not isinstance(body, bytes):
        options["headers"] = _JSON | dict(options.get("headers") or {})
    async with http.request(method, url, **options) as answer:
        return HttpAnswer(answer.status, answer.headers, await answer.read())


async def open_session(
    http: aiohttp.ClientSession, http_url: str, *, address: str | None = None, **body: str
) -> ChatSession:
    """`POST /session`. `address`: as for `ChatSession`."""
    answer = await call(http, "POST", f"{http_url}/session", body)
    assert answer.status == 201, answer.body
    return ChatSession(http, answer.json, address)
