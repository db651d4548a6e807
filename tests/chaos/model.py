"""The model of the chaos harness: an OpenAI-compatible server process,
`python -m tests.chaos.model PORT`.

A thousand slow streams cost it next to nothing. A message of another shape than `Script.question`
is refused with 400. A request whose last message is the assistant's is continued from there. Every
call is remembered by its Idempotency-Key.

    POST /admin/stall {"seconds": 8}  no stream gives a token for so long
    POST /admin/break {"share": 0.2}  so many of the streams that run are cut off
    GET  /admin/calls
        {"calls": {key: count}, "tokens": {key: tokens}, "unkeyed": 0, "wrong_prefixes": 0,
         "open": 12}; `tokens` of calls that ended
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
import uvloop

from bench.processes import end_with_parent
from tests.chaos.script import Script

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_KEY = re.compile(rb"\r\nidempotency-key: *([^\r]+)", re.IGNORECASE)
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_FIRST_TOKEN_SECONDS = (0.05, 0.4)


@dataclass
class _Model:
    """What all connections share."""

    calls: Counter[str] = field(default_factory=Counter)
    tokens: dict[str, int] = field(default_factory=dict)
    unkeyed: int = 0
    wrong_prefixes: int = 0
    stalled_until: float = 0.0
    streams: set[_Stream] = field(default_factory=set)

    def administer(self, path: str, body: bytes) -> dict[str, Any]:
        """Answer a request under /admin."""
        if path == "/admin/stall":
            self.stalled_until = asyncio.get_running_loop().time() + orjson.loads(body)["seconds"]
        elif path == "/admin/break":
            running = list(self.streams)
            for stream in random.sample(running, round(len(running) * orjson.loads(body)["share"])):
                stream.break_off()
        return {
            "calls": dict(self.calls) if path == "/admin/calls" else None,
            "tokens": self.tokens if path == "/admin/calls" else None,
            "unkeyed": self.unkeyed,
            "wrong_prefixes": self.wrong_prefixes,
            "open": len(self.streams),
        }


class _Stream:
    """One answer being given."""

    def __init__(
        self,
        model: _Model,
        transport: asyncio.Transport,
        key: str,
        deltas: list[dict[str, Any]],
        last: bytes,
        gap: float,
    ) -> None:
        self._model = model
        self._transport = transport
        self._key = key
        self._deltas = deltas
        self._last = last
        self._gap = gap
        self._next = 0
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + random.uniform(*_FIRST_TOKEN_SECONDS)
        model.streams.add(self)
        transport.write(_STREAM_HEAD)
        self._timer = self._loop.call_at(self._due, self._send)

    def stop(self) -> None:
        """The caller has left."""
        self._timer.cancel()
        self._model.streams.discard(self)

    def break_off(self) -> None:
        """Cut the connection in the middle."""
        self.stop()
        self._transport.abort()

    def _send(self) -> None:
        if self._loop.time() < self._model.stalled_until:
            # They come back spread over a gap, as they were before.
            self._due = self._model.stalled_until + random.uniform(0, self._gap)
        elif self._next == len(self._deltas):
            self._model.tokens[self._key] = len(self._deltas)
            self._transport.write(self._last)
            self.stop()
            return
        else:
            self._transport.write(_chunk(_event(self._deltas[self._next], None)))
            self._next += 1
            self._due += self._gap
        self._timer = self._loop.call_at(self._due, self._send)


class _Connection(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self, model: _Model) -> None:
        self._model = model
        self._received = b""
        self._stream: _Stream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's is one in all but its base class

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._stream is not None:
            self._stream.stop()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        found = _CONTENT_LENGTH.search(head)
        length = int(found[1]) if found else 0
        if not separator or len(body) < length:
            return
        self._received = body[length:]
        method_and_path = head.split(b" ", 2)
        path = method_and_path[1].decode()
        if path.startswith("/admin/"):
            self._answer(200, self._model.administer(path, body[:length]))
        else:
            self._generate(head, body[:length])

    def _generate(self, head: bytes, body: bytes) -> None:
        model, key = self._model, _KEY.search(head)
        name = key[1].decode() if key else ""
        if name:
            model.calls[name] += 1
        else:
            model.unkeyed += 1
        turns = [(turn["role"], turn["content"]) for turn in orjson.loads(body)["messages"]]
        prefix = turns.pop()[1] if turns[-1][0] == "assistant" else ""
        try:
            script = Script.asked_by(turns[-1][1])
        except ValueError as error:
            self._answer(400, {"error": {"message": str(error)}})
            return
        deltas = script.deltas(prefix)
        if deltas is None:
            model.wrong_prefixes += 1
            self._answer(
                400, {"error": {"message": "the text to continue is not what this model said"}}
            )
            return
        finish_reason = "tool_calls" if script.call else "stop"
        last = _end(len(deltas), finish_reason)
        gap = script.gap_ms / 1000
        self._stream = _Stream(model, self._transport, name, deltas, last, gap)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = orjson.dumps(body)
        head = (
            f"HTTP/1.1 {status} _\r\nContent-Type: application/json\r\nContent-Length: "
            f"{len(data)}\r\n\r\n"
        )
        self._transport.write(head.encode() + data)


def _event(delta: dict[str, Any], finish_reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: %b\n\n" % orjson.dumps(
        {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
    )


def _end(tokens: int, finish_reason: str) -> bytes:
    usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": tokens}}
    last = _event({}, finish_reason) + b"data: %b\n\ndata: [DONE]\n\n" % orjson.dumps(usage)
    return _chunk(last) + _chunk(b"")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _serve(port: int) -> None:
    model = _Model()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(model), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    end_with_parent()
    uvloop.run(_serve(int(sys.argv[1])))
