"""What is sent: each input follows from a seed, its number and the session that it is sent in."""

from __future__ import annotations

import gzip
import json
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tests.fuzz.mutation import mutated, pieces
from tests.fuzz.open_session import OpenSession
from tests.fuzz.protocol_requests import protocol_request, response_message
from tests.integration.raw_websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT


@dataclass(frozen=True)
class Input:
    """One input.

    Args:
        kind: `frames`, `requests` and `protocols` are of a client, `answers` of the model's server.
        pieces: the bytes, as they are sent one after the other.
        protocol: the subprotocol of `frames`.
        unasked: for `answers`, one more that comes later, while nobody waits for one.
    """

    kind: str
    number: int
    pieces: tuple[bytes, ...]
    protocol: str = ""
    unasked: bytes = b""

    def __str__(self) -> str:
        parts = " + ".join(repr(piece) for piece in self.pieces)
        later = f", later {self.unasked!r}" if self.unasked else ""
        return f"input {self.number}, {self.kind} {self.protocol}: {parts}{later}"


def input_of(seed: int, number: int, session: OpenSession) -> Input:
    """The input with this number."""
    chance = random.Random(f"{seed}:{number}")
    make = chance.choice((_frames, _requests, _chunked_requests, _protocols, _protocols, _answers))
    return make(number, chance, session)


# -- frames ----------------------------------------------------------------------------------------

RESPONSES = "responses"
"""The `protocol` of the Responses API's WebSocket. It has no subprotocol."""

_CHAT: tuple[dict[str, object], ...] = (
    {"type": "chat.message", "message_id": "m2", "previous_message_id": "m1",
     "payload": {"text": "fuzz"}},
    {"type": "response.resume", "response_id": "rsp_x", "after": -1},
    {"type": "response.pause", "response_id": "rsp_x"},
    {"type": "response.continue", "response_id": "rsp_x"},
    {"type": "response.cancel", "response_id": "rsp_x"},
    {"type": "response.ack", "response_id": "rsp_x", "index": 3},
    {"type": "response.credit", "response_id": "rsp_x", "n": 5},
    {"type": "ping"},
)  # fmt: skip
_REALTIME: tuple[dict[str, object], ...] = (
    {"type": "start", "id": "m2", "previous": "m1", "text": "fuzz", "credit": 5},
    {"type": "pause", "response_id": "rsp_x"},
    {"type": "resume", "response_id": "rsp_x", "after": -1},
    {"type": "cancel", "response_id": "rsp_x"},
    {"type": "credit", "response_id": "rsp_x", "n": 5},
)
_SPOKEN: Mapping[str, tuple[dict[str, object], ...]] = {
    "evenflow.v1": _CHAT,
    "evenflow.v1.compact": _CHAT,
    "evenflow.realtime.v1": _REALTIME,
}
_VALUES: tuple[object, ...] = (
    None, True, 0, -1, 1.5, 2**63, "", "x" * 200, "\x00", "🙂", [], {}, [[[]]], {"type": "ping"},
)  # fmt: skip


def _frames(number: int, chance: random.Random, session: OpenSession) -> Input:
    protocol = chance.choice((RESPONSES, *_SPOKEN))
    data = b"".join(
        _framed(session.fill(response_message(chance)), chance)
        if protocol == RESPONSES
        else _frame(chance.choice(_SPOKEN[protocol]), chance, session)
        for _ in range(chance.randint(1, 6))
    )
    if chance.random() < 0.3:
        data = mutated(data, chance)
    return Input("frames", number, pieces(data, chance), protocol)


def _frame(form: Mapping[str, object], chance: random.Random, session: OpenSession) -> bytes:
    message = dict(form)
    if chance.random() < 0.5:
        message[chance.choice([*message, "more"])] = chance.choice(_VALUES)
    return _framed(session.fill(json.dumps(message).encode()), chance)


def _framed(payload: bytes, chance: random.Random) -> bytes:
    payload = mutated(payload, chance, most=1)
    opcode = TEXT
    if chance.random() < 0.3:
        opcode = chance.choice((CONTINUATION, BINARY, PING, PONG, CLOSE, 0x3, 0xF))
        if opcode == CLOSE:
            payload = struct.pack(">H", chance.choice((0, 999, 1000, 1005, 1006, 3000, 65_535)))
        elif opcode in (PING, PONG):
            payload = payload[: chance.choice((0, 5, 125, 126))]
    first = opcode | (0 if chance.random() < 0.1 else 0x80)
    if chance.random() < 0.05:
        first |= chance.choice((0x10, 0x20, 0x40))
    return bytes([first]) + _masked(payload, chance)


def _masked(payload: bytes, chance: random.Random) -> bytes:
    said = len(payload) if chance.random() < 0.95 else chance.choice((0, 70_000, 2**62, 2**64 - 1))
    if said < 126:
        head = bytes([0x80 | said])
    elif said < 65_536:
        head = b"\xfe" + struct.pack(">H", said)
    else:
        head = b"\xff" + struct.pack(">Q", said)
    mask = chance.randbytes(4)
    return head + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))


# -- requests --------------------------------------------------------------------------------------

_AUTHORIZED = b"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
_MESSAGE = b'{"message_id":"m2","previous_message_id":"m1","payload":{"text":"fuzz"}}'
_COMPLETION = b'{"model":"default","stream":true,"messages":[{"role":"user","content":"fuzz"}]}'
_GZIP = b"Content-Encoding: gzip\r\n"
_UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def _post(path: bytes, body: bytes, more: bytes = b"") -> bytes:
    head = b"POST %b HTTP/1.1\r\n%b%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (path, _AUTHORIZED, more, len(body)) + body


def _get(path: bytes, more: bytes = b"") -> bytes:
    return b"GET %b HTTP/1.1\r\n%b%b\r\n" % (path, _AUTHORIZED, more)


_PREFLIGHT = (
    b"OPTIONS /chat/message HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://elsewhere.example\r\n"
    b"Access-Control-Request-Method: POST\r\n\r\n"
)
_REQUESTS = (
    _post(b"/session", b"{}"),
    _post(b"/chat/message", _MESSAGE),
    _post(b"/chat/message", _MESSAGE, b"Expect: 100-continue\r\n"),
    _post(b"/chat/message/rsp_x/cancel", b"{}"),
    _post(b"/v1/chat/completions", _COMPLETION),
    _post(b"/v1/chat/completions", _COMPLETION, b"Origin: https://elsewhere.example\r\n"),
    _post(b"/session", b"{}" * 50, _GZIP),
    _post(b"/v1/chat/completions", gzip.compress(_COMPLETION, mtime=0), _GZIP),
    _get(b"/chat/message/rsp_x?from_index=0&timeout_ms=100"),
    _get(b"/chat/message/rsp_x/events?after=-1", b"Last-Event-ID: 1-2\r\n"),
    _get(b"/chat/message/rsp_x/entries/1/0-9"),
    _get(b"/v1/models"),
    _get(b"/health") + _get(b"/openapi.json"),
    _get(b"/ws", _UPGRADE),
    _get(b"/health") + _get(b"/realtime", _UPGRADE),
    _PREFLIGHT,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)


def _requests(number: int, chance: random.Random, session: OpenSession) -> Input:
    data = mutated(session.fill(chance.choice(_REQUESTS)), chance)
    return Input("requests", number, pieces(data, chance))


def _chunked_requests(number: int, chance: random.Random, session: OpenSession) -> Input:
    path, body = chance.choice(
        ((b"/session", b"{}"), (b"/chat/message", _MESSAGE), (b"/v1/chat/completions", _COMPLETION))
    )
    more = b"Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n"
    if chance.random() < 0.3:
        packed = gzip.compress(body * chance.choice((1, 1_000)), mtime=0)
        body = chance.choice((packed, packed[:10] + chance.randbytes(60_000)))
        more += b"Content-Encoding: %b\r\n" % chance.choice((b"gzip", b"deflate", b"br", b"zstd"))
    chunks = _chunked(mutated(body, chance, most=1), chance)
    if chance.random() < 0.6:
        chunks = mutated(chunks, chance)
    head = session.fill(b"POST %b HTTP/1.1\r\n%b%b\r\n" % (path, _AUTHORIZED, more))
    return Input("requests", number, pieces(head + chunks, chance))


def _chunked(body: bytes, chance: random.Random) -> bytes:
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in pieces(body, chance) if part]
    return b"".join(chunks) + b"0\r\n\r\n"


def _protocols(number: int, chance: random.Random, session: OpenSession) -> Input:
    named = session.trespassing if chance.random() < 0.2 else session
    return Input("protocols", number, pieces(protocol_request(chance, named), chance))


# -- answers of the model's server -----------------------------------------------------------------


def event(delta: Mapping[str, object], finish_reason: str | None = None, index: int = 0) -> bytes:
    """One event with a chunk of an answer."""
    choice = {"index": index, "delta": delta, "finish_reason": finish_reason}
    body = {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: %b\n\n" % json.dumps(body, ensure_ascii=False).encode()


def answer(body: bytes, more: bytes = b"") -> bytes:
    """A whole answer over a connection that stays."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    return head + more + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


DONE = b"data: [DONE]\n\n"
_CALL = {"index": 0, "id": "call_1", "type": "function",
         "function": {"name": "look", "arguments": '{"a":'}}  # fmt: skip
EVENTS = (
    event({"content": "one"}) + event({"content": " two 🙂"}) + event({}, "stop") + DONE,
    event({"reasoning_content": "hm"}) + event({"refusal": "no"}) + event({}, "length") + DONE,
    event({"tool_calls": [_CALL]}) + event({}, "tool_calls") + DONE,
    event({"content": "a"}) + event({"content": "b"}, index=1) + DONE,
    b": comment\n\nevent: x\nid: 7\nretry: 1\n" + event({"content": "one"}).replace(b"\n", b"\r\n"),
    b'data: {"error": {"message": "it failed", "code": 500}}\n\n',
)
"""Whole answers, and those that break off."""

_MORE = (
    b"", b"", b"", b"Content-Encoding: gzip\r\n", b"Content-Encoding: br\r\n",
    b"Content-Length: 3\r\n", b"Connection: close\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n",
)  # fmt: skip
_STATUSES = (
    b"HTTP/1.1 429 Slow\r\nRetry-After: 0\r\nContent-Length: 2\r\n\r\n{}",
    b'HTTP/1.1 500 No\r\nContent-Length: 24\r\n\r\n{"error":{"message":"x"}',
    b"HTTP/1.1 307 There\r\nLocation: http://127.0.0.1:1/v1\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 204 Nothing\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\x02{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
)


def _answers(number: int, chance: random.Random, _: OpenSession) -> Input:
    if chance.random() < 0.2:
        # Whoever asks next must not get it.
        unasked = answer(event({"content": "somebody else's"}) + event({}, "stop") + DONE)
        whole = answer(chance.choice(EVENTS))
        return Input("answers", number, (whole,), unasked=mutated(unasked, chance, most=1))
    if chance.random() < 0.2:
        data = chance.choice(_STATUSES)
    else:
        body = chance.choice(EVENTS)
        body = mutated(body, chance) if chance.random() < 0.6 else body
        data = answer(body, chance.choice(_MORE))
    if chance.random() < 0.3:
        data = b"HTTP/1.1 100 Continue\r\n\r\n" * chance.choice((1, 50)) + data
    if chance.random() < 0.4:
        data = mutated(data, chance)
    return Input("answers", number, pieces(data, chance))


KINDS: tuple[str, ...] = ("frames", "requests", "protocols", "answers")
