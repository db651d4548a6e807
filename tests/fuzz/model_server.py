"""The model's server: right answers for honest readers, and an input's bytes for the others."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.fuzz.inputs import DONE, EVENTS, Input, answer, event

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ASKED = re.compile(r"(honest|fuzz|parts) (\d+)$")
# So long a connection is kept for a next request, and after an input, in which an answer may have
# no end.
_KEPT_SECONDS = 10.0
_KEPT_AFTER_INPUT_SECONDS = 0.3


def honest_text(number: int) -> str:
    """What the model answers to `honest <number>`."""
    return f"You asked for number {number}, and here it is: 🙂 {'on and on ' * 5}{number}."


def honest_answer(number: int) -> bytes:
    """The same as the bytes of an answer."""
    text = honest_text(number)
    events = [event({"content": text[at : at + 7]}) for at in range(0, len(text), 7)]
    return answer(b"".join(events) + event({}, "stop") + DONE)


class ModelServer:
    """Serves one model on a free port of the loopback."""

    def __init__(self) -> None:
        self.url = ""
        self._inputs: dict[int, Input] = {}
        self._at_rest: dict[asyncio.StreamWriter, bytes] = {}

    def will_answer(self, given: Input) -> None:
        """Answer `fuzz <its number>` with this input, once."""
        self._inputs[given.number] = given

    def send_unasked(self) -> None:
        """Send what nobody asked for, over connections that have answered an input."""
        for writer, unasked in self._at_rest.items():
            writer.write(unasked)
        self._at_rest.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        kept = _KEPT_SECONDS
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            while True:
                async with asyncio.timeout(kept):
                    asked = _ASKED.search(await _last_message(reader))
                self._at_rest.pop(writer, None)
                if asked is None:
                    break
                kept = await self._answer(asked[1], int(asked[2]), writer)
        self._at_rest.pop(writer, None)
        writer.transport.abort()

    async def _answer(self, who: str, number: int, writer: asyncio.StreamWriter) -> float:
        """Returns for how many seconds the connection stays."""
        given = self._inputs.pop(number, None) if who == "fuzz" else None
        if given is None:
            parts = answer(EVENTS[number % len(EVENTS)])
            writer.write(parts if who == "parts" else honest_answer(number))
            await writer.drain()
            return _KEPT_SECONDS
        for piece in given.pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if given.unasked:
            self._at_rest[writer] = given.unasked
            return _KEPT_SECONDS
        return _KEPT_AFTER_INPUT_SECONDS if given.number % 3 else 0.0


async def _last_message(reader: asyncio.StreamReader) -> str:
    """Read a request. Returns the text of its last message."""
    head = await reader.readuntil(_HEAD_END)
    length = _LENGTH.search(head)
    body = await (reader.readexactly(int(length[1])) if length else _chunked_body(reader))
    content = json.loads(body)["messages"][-1].get("content")
    return content if isinstance(content, str) else str(content).rstrip("'}]")


async def _chunked_body(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readuntil(b"\r\n")
    await reader.readuntil(b"\r\n")
    return body


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    """Serve one."""
    model = ModelServer()
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield model
    finally:
        server.close()
