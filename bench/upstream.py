"""An OpenAI-compatible model server that costs almost nothing: `python -m bench.upstream PORT`.

A question `#upstream tokens=200 gap_ms=30` is answered with so many tokens of server-sent events,
paced. Every token is 16 characters: its number, the moment it was sent (microseconds of
`time.monotonic`, which processes share), a space. So the client can tell which tokens are missing
and how long each was under way.
"""

import asyncio
import re
import sys
from collections.abc import Iterator
from time import monotonic_ns
from typing import cast

import uvloop

TOKEN_LENGTH = 16
CLOCK_WRAP = 1_000_000_000  # microseconds: the timestamp has nine digits
DIRECTIVE = re.compile(rb"#upstream tokens=(\d+) gap_ms=(\d+)")
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = (
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":0,"model":"bench",'
    b'"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n'
)
LAST_EVENTS = (
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":0,"model":"bench",'
    b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":0,"model":"bench",'
    b'"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d,"total_tokens":%d}}\n\n'
    b"data: [DONE]\n\n"
)


def question(tokens: int, gap_ms: int) -> str:
    """The directive that asks for so many tokens, so far apart."""
    return f"#upstream tokens={tokens} gap_ms={gap_ms}"


def sent_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Number and sending time (µs, modulo CLOCK_WRAP) of each token in a piece of the answer."""
    for start in range(0, len(text), TOKEN_LENGTH):
        yield int(text[start : start + 6]), int(text[start + 6 : start + 15])


def now_us() -> int:
    return monotonic_ns() // 1_000 % CLOCK_WRAP


class Answerer(asyncio.Protocol):
    """One keep-alive connection: reads a request, streams the answer, reads the next."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's is one in all but its base class
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        length = CONTENT_LENGTH.search(head)
        if separator and length and len(body) >= int(length[1]):
            self._received = b""
            tokens, gap_ms = DIRECTIVE.findall(body)[-1]  # the last one: history comes before it
            self._transport.write(HEAD)
            self._begin(int(tokens), int(gap_ms) / 1_000)

    def _begin(self, tokens: int, gap_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()

        def send(number: int) -> None:
            if self._transport.is_closing():
                return
            if number == tokens:
                self._transport.write(_chunk(LAST_EVENTS % (tokens, tokens + 1)) + _chunk(b""))
                return
            self._transport.write(_chunk(EVENT % b"%06d%09d " % (number, now_us())))
            loop.call_at(begin + (number + 1) * gap_seconds, send, number + 1)

        send(0)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(
        Answerer, "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
