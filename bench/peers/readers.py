"""The load: readers of one answer each, who note every piece with its time of arrival and judge
nothing while running. A piece costs two appends, so that one core reads more than 40,000 tokens a
second.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import cast

import orjson
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from bench import upstream
from bench.client import HANDSHAKE_TIMEOUT_SECONDS, QUIET, until
from bench.peers.judge import (
    SOCKET_IO_TOKEN,
    Event,
    Piece,
    Text,
    chat_texts,
    evenflow_texts,
    events,
    http_body,
    socket_io_texts,
)

GREETINGS = 2  # frames before the first of an answer, of both kinds of WebSocket


@dataclass(frozen=True)
class Question:
    """What is asked: so many tokens, so far apart, numbered from `first` on."""

    id: str
    tokens: int
    gap_ms: int
    first: int
    prompt_tokens: int = 0

    @property
    def text(self) -> str:
        """The question as a user writes it."""
        directive = upstream.question(self.tokens, self.gap_ms, self.first)
        return "word" * self.prompt_tokens + directive

    @property
    def request(self) -> bytes:
        """The body of a request of OpenAI's API."""
        messages = [{"role": "user", "content": self.text}]
        return orjson.dumps({"model": "bench", "stream": True, "messages": messages})


class Leg(asyncio.Protocol):
    """One HTTP connection of a reader, or what stands for it: pieces and when they came."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._arrivals = array("d")
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._arrivals.append(monotonic())
        self._pieces.append(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended = True

    @property
    def pieces(self) -> list[Piece]:
        return list(zip(self._arrivals, self._pieces, strict=True))

    @property
    def heard(self) -> bool:
        return bool(self._pieces)

    def ends_with(self, end: bytes) -> bool:
        """Whether the last two pieces have these bytes."""
        return end in b"".join(self._pieces[-2:])


class Reader(ABC):
    """Asks one question and reads its answer, over as many connections as it takes."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.asked = 0.0  # when the question went out, in seconds of `time.monotonic`

    @abstractmethod
    async def begin(self) -> None:
        """Ask. Returns when the question is on its way."""

    @abstractmethod
    def cut(self) -> None:
        """Break the connection off, without a word."""

    @abstractmethod
    async def come_back(self) -> None:
        """Connect again and ask for the rest, as the system's documentation says."""

    @abstractmethod
    def texts(self) -> list[Text]:
        """The answer's text as it came.

        Raises:
            ProtocolError: an error came instead.
        """

    @property
    @abstractmethod
    def reading(self) -> bool:
        """Something of the answer has come."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Nothing will follow on this connection."""


@dataclass(frozen=True)
class Call:
    """An HTTP request: to which port, and all its bytes."""

    port: int
    message: bytes


@dataclass(frozen=True)
class Position:
    """How much of an answer its reader has: the last event, and all text of the body."""

    event: Event | None
    characters: int


@dataclass(frozen=True)
class HttpSystem:
    """How a system is asked over HTTP, and how the rest of a cut answer is asked for."""

    read: Callable[[Question], Call]
    resume: Callable[[Question, Position], Call] | None = None
    ask: Callable[[Question], Call] | None = None  # beforehand, where that is another call
    resumes_text: bool = False  # at any character, not behind an event
    end: bytes = b"[DONE]"


def post(port: int, path: str, body: bytes, *headers: str) -> Call:
    return Call(port, _message("POST", path, (f"Content-Length: {len(body)}", *headers), body))


def get(port: int, path: str, *headers: str) -> Call:
    return Call(port, _message("GET", path, ("Accept: text/event-stream", *headers), b""))


def _message(method: str, path: str, headers: tuple[str, ...], body: bytes) -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers)
    if body:
        lines += ("Content-Type: application/json",)
    return "\r\n".join((*lines, "", "")).encode() + body


async def called(call: Call) -> Leg:
    """The connection on which it was made."""
    loop = asyncio.get_running_loop()
    _, leg = await loop.create_connection(Leg, "127.0.0.1", call.port)
    leg.transport.write(call.message)
    return leg


async def _accepted(call: Call) -> None:
    """Raises ConnectionError when the answer to a call isn't that it was taken."""
    leg = await called(call)
    await until(lambda: leg.heard or leg.ended, HANDSHAKE_TIMEOUT_SECONDS, every=0.002)
    leg.transport.abort()
    said = leg.pieces[0][1] if leg.heard else b"nothing"
    if not said.startswith(b"HTTP/1.1 2"):
        raise ConnectionError(f"the question was answered by {said[:100]!r}")


class HttpReader(Reader):
    """Reads server-sent events."""

    def __init__(self, system: HttpSystem, question: Question) -> None:
        super().__init__(question)
        self._system = system
        self._legs: list[Leg] = []

    async def begin(self) -> None:
        self.asked = monotonic()
        if self._system.ask:
            await _accepted(self._system.ask(self.question))
        self._legs.append(await called(self._system.read(self.question)))

    def cut(self) -> None:
        for leg in self._legs:
            leg.transport.abort()

    async def come_back(self) -> None:
        assert self._system.resume
        body = self._body()
        had = list(events(body))
        position = Position(
            next((event for event in reversed(had) if self._is_a_place(event)), None),
            len(b"".join(data for _, data in body)),  # all ASCII
        )
        self._legs.append(await called(self._system.resume(self.question, position)))

    @staticmethod
    def _is_a_place(event: Event) -> bool:
        return event.id is not None or event.name == "control"

    def texts(self) -> list[Text]:
        if self._system.resumes_text:
            return list(chat_texts(events(self._body())))
        return [text for leg in self._legs for text in chat_texts(events(http_body(leg.pieces)))]

    def _body(self) -> list[Piece]:
        return [piece for leg in self._legs for piece in http_body(leg.pieces)]

    @property
    def reading(self) -> bool:
        return any(leg.heard for leg in self._legs)

    @property
    def done(self) -> bool:
        return bool(self._legs) and (
            self._legs[-1].ended or self._legs[-1].ends_with(self._system.end)
        )


class Socket(WSListener):
    """One WebSocket of a reader."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._arrivals = array("d")
        self.ended = False

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, _transport: WSTransport, frame: WSFrame) -> None:
        self._arrivals.append(monotonic())
        self._frames.append(frame.get_payload_as_bytes())

    def on_ws_disconnected(self, _transport: WSTransport) -> None:
        self.ended = True

    @property
    def pieces(self) -> list[Piece]:
        return list(zip(self._arrivals, self._frames, strict=True))

    @property
    def heard(self) -> int:
        return len(self._frames)

    @property
    def last(self) -> bytes:
        return self._frames[-1] if self._frames else b""

    async def frame(self, start: bytes) -> bytes:
        """The first frame with this beginning, awaited.

        Raises:
            ConnectionError: it did not come.
        """
        found: list[bytes] = []

        def has_come() -> bool:
            found[:] = [frame for frame in self._frames[:8] if frame.startswith(start)]
            return bool(found) or self.ended

        await until(has_come, HANDSHAKE_TIMEOUT_SECONDS, every=0.002)
        if not found:
            raise ConnectionError(f"no frame {start!r} came, but {self._frames[:2]}")
        return found[0]

    def send(self, text: bytes | str) -> None:
        self.transport.send(WSMsgType.TEXT, text.encode() if isinstance(text, str) else text)


class SocketIoSocket(Socket):
    """Answers the heartbeat, too."""

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        super().on_ws_frame(transport, frame)
        if len(self._frames[-1]) == 1:
            self.send(b"3")


class SocketReader(Reader):
    """Reads frames of a WebSocket."""

    make_socket = Socket

    def __init__(self, url: str, question: Question, headers: dict[str, str]) -> None:
        super().__init__(question)
        self._url = url
        self._headers = headers
        self._sockets: list[Socket] = []

    async def _connect(self) -> Socket:
        socket = self.make_socket()
        await ws_connect(
            lambda: socket,
            self._url,
            extra_headers=self._headers,
            websocket_handshake_timeout=HANDSHAKE_TIMEOUT_SECONDS,
            logger_name=QUIET,
            use_aiofastnet=False,
            read_buffer_init_size=512,
        )
        self._sockets.append(socket)
        return socket

    def cut(self) -> None:
        for socket in self._sockets:
            if not socket.ended:
                socket.transport.disconnect(graceful=False)

    @property
    def reading(self) -> bool:
        return any(socket.heard > GREETINGS for socket in self._sockets)

    def _pieces(self) -> list[Piece]:
        return [piece for socket in self._sockets for piece in socket.pieces]


class EvenflowReader(SocketReader):
    """Evenflow's WebSocket, `evenflow.v1`."""

    async def begin(self) -> None:
        socket = await self._connect()
        await socket.frame(b'{"type":"session.ready"')
        self.asked = monotonic()
        message = {"message_id": "m1", "payload": {"text": self.question.text}}
        socket.send(orjson.dumps({"type": "chat.message"} | message))

    async def come_back(self) -> None:
        index = -1
        start = await self._sockets[0].frame(b'{"type":"chat.response.start"')
        for _, raw in self._pieces():
            frame = orjson.loads(raw)
            if frame["type"] == "chat.response.delta":
                index = frame["index"]
        socket = await self._connect()
        await socket.frame(b'{"type":"session.ready"')
        place = {"response_id": orjson.loads(start)["response_id"], "after": index}
        socket.send(orjson.dumps({"type": "response.resume"} | place))

    def texts(self) -> list[Text]:
        return list(evenflow_texts(self._pieces()))

    @property
    def done(self) -> bool:
        last = self._sockets[-1] if self._sockets else None
        return last is not None and (
            last.ended or last.last.startswith(b'{"type":"chat.response.completed"')
        )


class SocketIoReader(SocketReader):
    """socket.io's protocol over Engine.IO's WebSocket, as its client speaks it."""

    make_socket = SocketIoSocket

    async def begin(self) -> None:
        socket = await self._connect()
        await socket.frame(b"0{")
        socket.send("40")
        await socket.frame(b"40{")
        self.asked = monotonic()
        socket.send("42" + json.dumps(["ask", self.question.request.decode()]))

    async def come_back(self) -> None:
        session = orjson.loads((await self._sockets[0].frame(b"40{"))[2:])
        tokens = [frame for _, frame in self._pieces() if frame.startswith(SOCKET_IO_TOKEN)]
        offset = orjson.loads(tokens[-1][2:])[-1] if tokens else None
        socket = await self._connect()
        await socket.frame(b"0{")
        socket.send("40" + json.dumps({"pid": session["pid"], "offset": offset}))
        await socket.frame(b"40{")

    def texts(self) -> list[Text]:
        return list(socket_io_texts(self._pieces()))

    @property
    def done(self) -> bool:
        last = self._sockets[-1] if self._sockets else None
        return last is not None and (
            last.ended or last.last.startswith(SOCKET_IO_TOKEN + b'"[DONE]"')
        )
