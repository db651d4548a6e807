"""A model's server of raw sockets: every byte it sends is the test's."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from evenflow.fargate_handler.token_sources.openai import OpenAIModel
from evenflow.fargate_handler.token_sources.port import ModelRequest
from evenflow.stream_core.session.conversation import Turn
from tests.integration.scripted_model import END, chunk
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def streamed(text: str) -> bytes:
    """An answer in chunks, with its end."""
    body = chunk(text) + END
    return SSE_HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def whole(text: str) -> bytes:
    """An answer whose length is told."""
    body = chunk(text) + END
    return SSE_HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@dataclass
class RawModel:
    """Answers a question with itself, by default."""

    url: str = ""
    answer: Callable[[str], bytes] = field(default=streamed)
    reads_bodies: bool = True
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has closed its connection."""
    _writer: asyncio.StreamWriter | None = None

    def send(self, data: bytes) -> None:
        """Send something over the connection of the last request."""
        assert self._writer is not None
        self._writer.write(data)

    async def send_until_stalled(self, data: bytes, most: int) -> int:
        """Send `data` over and over until the client takes no more. Returns the bytes taken.

        Args:
            most: how often, where the client takes all.
        """
        assert self._writer is not None
        transport, sent = self._writer.transport, 0
        own = transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        transport.set_write_buffer_limits(0)
        with suppress(TimeoutError):
            for _ in range(most):
                self._writer.write(data)
                sent += len(data)
                await asyncio.wait_for(self._writer.drain(), 0.5)
        return sent

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        self._writer = writer
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                self._writer = writer
                question = ""
                if self.reads_bodies:
                    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                    asked = json.loads(await reader.readexactly(length))
                    question = asked["messages"][-1]["content"]
                writer.write(self.answer(question))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            self.left.set()


@asynccontextmanager
async def raw_model() -> AsyncIterator[RawModel]:
    """Serve one on a free port."""
    model = RawModel()
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield model


async def ask(source: OpenAIModel, question: str) -> str:
    """The text of the answer to a question."""
    sink = RecordingSink()
    await source.generate(ModelRequest("demo", (Turn("user", question),), 1), sink)
    return sink.text
