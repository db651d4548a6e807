"""An OpenAI-compatible model server that costs almost nothing: `python -m bench.upstream PORT`.

A question `#upstream tokens=200 gap_ms=30` is answered with so many tokens of server-sent events,
paced. Every token is 16 characters: its number, the moment it was sent (microseconds of
`time.monotonic`, which processes share), a space. So the client can tell which tokens are missing
and how long each was under way. With `first=4711` the numbers begin there and go on from 999999 at
0, so that each answer can have numbers of its own.

`GET /answers` says what became of the answers: how many are running, and when (seconds of
`time.monotonic`) each one that was left before its end was left.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from time import monotonic, monotonic_ns
from typing import cast

import uvloop

TOKEN_LENGTH = 16
CLOCK_WRAP = 1_000_000_000  # microseconds: the timestamp has nine digits
NUMBER_WRAP = 1_000_000  # the number has six
DIRECTIVE = re.compile(rb"#upstream tokens=(\d+) gap_ms=(\d+)(?: first=(\d+))?")
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


def question(tokens: int, gap_ms: int, first: int = 0) -> str:
    """The directive that asks for so many tokens, so far apart, numbered from `first` on."""
    return f"#upstream tokens={tokens} gap_ms={gap_ms} first={first}"


def sent_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Number and sending time (µs, modulo CLOCK_WRAP) of each token in a piece of the answer."""
    for start in range(0, len(text), TOKEN_LENGTH):
        yield int(text[start : start + 6]), int(text[start + 6 : start + 15])


def now_us() -> int:
    return monotonic_ns() // 1_000 % CLOCK_WRAP


class Answers:
    """What became of the answers of this process."""

    def __init__(self) -> None:
        self.running = 0
        self.left: list[float] = []  # when each one's connection ended before it did


class Answerer(asyncio.Protocol):
    """One keep-alive connection: reads a request, streams the answer, reads the next."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's is one in all but its base class
        self._received = b""

    def connection_lost(self, _error: Exception | None) -> None:
        if self._answering:
            self._answers.running -= 1
            self._answers.left.append(monotonic())

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if separator and head.startswith(b"GET"):
            self._received = b""
            self._transport.write(json_response(vars(self._answers)))
            return
        length = CONTENT_LENGTH.search(head)
        if separator and length and len(body) >= int(length[1]):
            self._received = b""
            # The last one: history comes before it.
            tokens, gap_ms, first = DIRECTIVE.findall(body)[-1]
            self._transport.write(HEAD)
            self._begin(int(tokens), int(gap_ms) / 1_000, int(first or 0))

    def _begin(self, tokens: int, gap_seconds: float, first: int) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        self._answering = True
        self._answers.running += 1

        def send(number: int) -> None:
            if self._transport.is_closing():
                return
            if number == tokens:
                self._answering = False
                self._answers.running -= 1
                self._transport.write(chunk(LAST_EVENTS % (tokens, tokens + 1)) + chunk(b""))
                return
            token = b"%06d%09d " % ((first + number) % NUMBER_WRAP, now_us())
            self._transport.write(chunk(EVENT % token))
            loop.call_at(begin + (number + 1) * gap_seconds, send, number + 1)

        send(0)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def json_response(value: object) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def serve(port: int) -> None:
    answers = Answers()
    server = await asyncio.get_running_loop().create_server(
        lambda: Answerer(answers), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
