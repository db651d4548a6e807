"""What readers received, read after the clock has stopped: tokens with their times, and whether
each came once.

A leg is one connection of a reader. What came over it is a list of pieces, bytes with the moment
of their arrival. Everything here is a function of them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import orjson

from bench.event_streams import Event, Piece, ProtocolError
from bench.upstream import CLOCK_WRAP, NUMBER_WRAP, TOKEN_LENGTH

TOKEN = re.compile(r"\d{15} ")
SOCKET_IO_TOKEN = b'42["token",'


@dataclass(frozen=True)
class Text:
    """A piece of the answer's text, or its end."""

    arrived: float
    text: str
    ends: bool = False


@dataclass(frozen=True)
class Token:
    """One token: its number, when the model sent it (µs, modulo CLOCK_WRAP), when it came."""

    number: int
    sent: int
    arrived: float

    @property
    def added_ms(self) -> float:
        """How long it was under way."""
        return (int(self.arrived * 1_000_000) - self.sent) % CLOCK_WRAP / 1_000


@dataclass
class Tally:
    """Counts over the answers judged."""

    answers: int = 0
    tokens: int = 0
    gaps: int = 0  # tokens that never came although a later one or the end did
    duplicates: int = 0  # tokens that came again
    wrong: int = 0  # answers with bytes that the model didn't write for them
    unfinished: int = 0  # answers that did not end though they should have

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            *(getattr(self, field.name) + getattr(other, field.name) for field in fields(self))
        )

    @property
    def faults(self) -> int:
        return self.gaps + self.duplicates + self.wrong + self.unfinished


def chat_texts(stream: Iterable[Event]) -> Iterator[Text]:
    """The text in chunks of OpenAI's API: one an event, or several as a list (Durable Streams,
    whose control event also tells the end).
    """
    for event in stream:
        if event.data == b"[DONE]":
            yield Text(event.arrived, "", ends=True)
        elif event.name == "control":
            if orjson.loads(event.data).get("streamClosed"):
                yield Text(event.arrived, "", ends=True)
        elif event.data:
            value = orjson.loads(event.data)
            for chunk in value if isinstance(value, list) else [value]:
                yield Text(event.arrived, chat_content(chunk))


def chat_content(chunk: dict[str, Any]) -> str:
    """The text in one chunk.

    Raises:
        ProtocolError: it is an error.
    """
    if "error" in chunk:
        raise ProtocolError(str(chunk["error"])[:300])
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


def socket_io_texts(frames: Iterable[Piece]) -> Iterator[Text]:
    """The text in `token` events of socket.io, each with a chunk as the model wrote it."""
    for arrived, frame in frames:
        if frame.startswith(SOCKET_IO_TOKEN):
            chunk = orjson.loads(frame[2:])[1]
            if chunk == "[DONE]":
                yield Text(arrived, "", ends=True)
            else:
                yield Text(arrived, chat_content(orjson.loads(chunk)))


def evenflow_texts(frames: Iterable[Piece]) -> Iterator[Text]:
    """The text in frames of Evenflow's WebSocket.

    Raises:
        ProtocolError: the message was refused, or the answer failed.
    """
    for arrived, raw in frames:
        frame = orjson.loads(raw)
        if frame["type"] == "chat.response.delta":
            yield Text(arrived, frame["delta"])
        elif frame["type"] == "chat.response.completed":
            yield Text(arrived, "", ends=frame["finish_reason"] == "stop")
        elif "error" in frame:
            raise ProtocolError(str(frame)[:300])


def tokens(texts: Iterable[Text]) -> Iterator[Token]:
    """The tokens of an answer, each with the arrival of its last byte; none after one that isn't
    a token.
    """
    rest = ""
    for piece in texts:
        rest += piece.text
        while len(rest) >= TOKEN_LENGTH:
            token, rest = rest[:TOKEN_LENGTH], rest[TOKEN_LENGTH:]
            if not TOKEN.fullmatch(token):
                return
            yield Token(int(token[:6]), int(token[6:15]), piece.arrived)


def judged(texts: Sequence[Text], first: int, wanted: int, *, must_finish: bool) -> Tally:
    """Whether the tokens numbered from `first` on, `wanted` of them, each came once and nothing
    else did. An answer that was cut on purpose may end early.
    """
    tally = Tally(answers=1)
    following = 0
    unread = sum(len(piece.text) for piece in texts)
    for token in tokens(texts):
        unread -= TOKEN_LENGTH
        place = (token.number - first) % NUMBER_WRAP
        if place >= wanted:  # of another answer
            tally.wrong = 1
            continue
        tally.tokens += 1
        tally.gaps += max(0, place - following)
        tally.duplicates += place < following
        following = max(following, place + 1)
    if unread >= (1 if must_finish else TOKEN_LENGTH):
        tally.wrong = 1
    finished = any(piece.ends for piece in texts)
    if finished:
        tally.gaps += wanted - following
    tally.unfinished = int(must_finish and not finished)
    return tally


def delays(answer: Iterable[Token], opened: float, closed: float) -> list[float]:
    """For each token that came between two moments, how long it was under way, in ms."""
    return [token.added_ms for token in answer if opened <= token.arrived < closed]


def jitters(answer: Iterable[Token], opened: float, closed: float) -> list[float]:
    """How much later or earlier each token came than its distance to the one before says, in ms."""
    delayed = delays(answer, opened, closed)
    return [abs(late - early) for early, late in pairwise(delayed)]
