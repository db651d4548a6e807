"""The load: readers of one answer each, who note every piece with its time of arrival and judge
nothing while running. A piece costs two appends, so that one core reads more than 40,000 tokens a
second.
"""

import asyncio
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import cast

import orjson

from bench import upstream
from bench.client import HANDSHAKE_TIMEOUT_SECONDS, until
from bench.event_streams import Event, Piece, events, http_body
from bench.peers.judge import Text, chat_texts


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
