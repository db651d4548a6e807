"""A model's server that means harm: `python -m tests.attack.hostile_model PORT`.

A question `#attack NAME` has it misbehave in that way. Any other (`#demo tokens=4 seed=7`) it
answers as the demo model would, so that honest readers can ask it, too. It also listens on another
address of the loopback, which stands for somebody else's host. `GET /told` says how many requests
came there.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache, partial

import uvloop

from bench.processes import end_with_parent
from evenflow.fargate_handler.token_sources.demo.script import demo_tokens

ELSEWHERE = "127.0.0.88"
SECRET_IN_ERROR = "hunter2-of-the-database"
FORGED = "an answer that nobody asked for"
BEGINNING, REST = "The beginning", " and the rest"
OF_ANOTHER_CHOICE = " OF ANOTHER CHOICE"
LEAKED_KEY = "AKIAQ999999999999999"
MATCH_BEGINNINGS = ("sk-", "eyJ", "41-", "sk-", "a.", "a@a.", "DE89 AAAA ", "xoxb-1-")

_UNPACKED_BLOCKS, _BLOCK = 256, 1_048_576
_INTERIM_SECONDS = 20.0
_ENDLESS_SECONDS = 120.0
_BEGINNINGS_SECONDS = 20.0
_turns = itertools.count()
_IGNORED_LENGTH_TOKENS = 20_000
_ERROR_TEXT = f"could not connect to postgres://admin:{SECRET_IN_ERROR}@db.internal/models"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TOKENS = re.compile(r"tokens=(\d+)")
_SEED = re.compile(r"seed=(\d+)")
_GAP_MS = re.compile(r"gap_ms=(\d+)")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"

Writer = asyncio.StreamWriter


def event(text: str, choice: int = 0, finish_reason: str | None = None) -> bytes:
    """A chunk of an answer as server-sent event."""
    delta = {"content": text} if text else {}
    choices = [{"index": choice, "delta": delta, "finish_reason": finish_reason}]
    body = {"id": "c", "object": "chat.completion.chunk", "choices": choices}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def end(choice: int = 0) -> bytes:
    """The last events."""
    return event("", choice, "stop") + b"data: [DONE]\n\n"


def chunk(data: bytes) -> bytes:
    """A chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def chunked(data: bytes) -> bytes:
    """The last chunk of a body, and its end."""
    return chunk(data) + b"0\r\n\r\n"


def answer(*texts: str) -> bytes:
    """A whole HTTP answer."""
    return _HEAD + b"\r\n" + chunked(b"".join(event(text) for text in texts) + end())


def error(status: int) -> bytes:
    """An error whose text should stay between operators."""
    body = json.dumps({"error": {"message": _ERROR_TEXT, "code": "bad_day"}}).encode()
    head = f"HTTP/1.1 {status} _\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def _gzip_bomb(writer: Writer) -> None:
    writer.write(_HEAD + b"Content-Encoding: gzip\r\n\r\n" + chunked(_bomb()))


async def _interim_answers(writer: Writer) -> None:
    block = b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000
    with suppress(TimeoutError):
        async with asyncio.timeout(_INTERIM_SECONDS):
            while not writer.is_closing():
                writer.write(block)
                await writer.drain()
    writer.close()


async def _redirect(writer: Writer) -> None:
    port = writer.get_extra_info("sockname")[1]
    writer.write(
        f"HTTP/1.1 307 _\r\nLocation: http://{ELSEWHERE}:{port}/v1/chat/completions\r\n"
        "Content-Length: 0\r\n\r\n".encode()
    )


async def _second_answer(writer: Writer) -> None:
    writer.write(answer(BEGINNING, REST) + answer(FORGED))


async def _late_second_answer(writer: Writer) -> None:
    writer.write(answer(BEGINNING, REST))
    await writer.drain()
    await asyncio.sleep(0.1)
    writer.write(answer(FORGED))


async def _error_500(writer: Writer) -> None:
    writer.write(error(500))


async def _error_400(writer: Writer) -> None:
    writer.write(error(400))


async def _byte_order_mark(writer: Writer) -> None:
    body = b"\xef\xbb\xbf" + event(BEGINNING) + event(REST) + end()
    writer.write(_HEAD + b"\r\n" + chunked(body))


async def _carriage_returns(writer: Writer) -> None:
    body = (event(BEGINNING) + event(REST) + end()).replace(b"\n", b"\r")
    writer.write(_HEAD + b"\r\n" + chunked(body))


async def _two_choices(writer: Writer) -> None:
    first, second = event(BEGINNING), event(OF_ANOTHER_CHOICE, 1)
    body = first + second + event(REST) + event("", 1, "stop") + end()
    writer.write(_HEAD + b"\r\n" + chunked(body))


async def _endless_answer(writer: Writer) -> None:
    writer.write(_HEAD + b"\r\n")
    text = " more and more" * 100
    with suppress(TimeoutError):
        async with asyncio.timeout(_ENDLESS_SECONDS):
            while not writer.is_closing():
                writer.write(chunk(event(text)))
                await writer.drain()
                await asyncio.sleep(0.2)
    writer.close()


async def _beginnings_of_matches(writer: Writer) -> None:
    text = MATCH_BEGINNINGS[next(_turns) % len(MATCH_BEGINNINGS)]
    writer.write(_HEAD + b"\r\n")
    data = event(text)
    with suppress(TimeoutError):
        async with asyncio.timeout(_BEGINNINGS_SECONDS):
            while not writer.is_closing():
                writer.write(chunk(data))
                await writer.drain()
                await asyncio.sleep(0.02)
    writer.close()


async def _key_by_letters(writer: Writer) -> None:
    writer.write(answer("Your key is ", *LEAKED_KEY, ", and that is all of it."))


async def _key_around_a_source(writer: Writer) -> None:
    cited = {"url_citation": {"url": "https://example.com", "title": "A page"}}
    source = {"choices": [{"index": 0, "delta": {"annotations": [cited]}}]}
    pieces = (
        event(f"Your key is {LEAKED_KEY[:9]}"),
        b"data: " + json.dumps({"object": "chat.completion.chunk", **source}).encode() + b"\n\n",
        event(f"{LEAKED_KEY[9:]}, so."),
    )
    writer.write(_HEAD + b"\r\n" + chunked(b"".join(pieces) + end()))


async def _deaf_to_lengths(writer: Writer) -> None:
    writer.write(_HEAD + b"\r\n" + chunked(event("x ") * _IGNORED_LENGTH_TOKENS + end()))


async def _counts(count: int, writer: Writer) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count}
    counted = b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n"
    writer.write(_HEAD + b"\r\n" + chunked(event(BEGINNING) + counted + end()))


BEHAVIOURS: dict[str, Callable[[Writer], Awaitable[None]]] = {
    "gzip-bomb": _gzip_bomb,
    "interim-answers": _interim_answers,
    "redirect": _redirect,
    "second-answer": _second_answer,
    "late-second-answer": _late_second_answer,
    "error-500": _error_500,
    "error-400": _error_400,
    "byte-order-mark": _byte_order_mark,
    "carriage-returns": _carriage_returns,
    "two-choices": _two_choices,
    "endless-answer": _endless_answer,
    "beginnings-of-matches": _beginnings_of_matches,
    "key-by-letters": _key_by_letters,
    "key-around-a-source": _key_around_a_source,
    "deaf-to-lengths": _deaf_to_lengths,
    "impossible-usage": partial(_counts, 2**62),
    "absurd-usage": partial(_counts, 10**12),
}


def _parameter_in(parameter: re.Pattern[str], question: str, default: int) -> int:
    found = parameter.search(question)
    return int(found[1]) if found else default


@cache
def _bomb() -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    block = (b": " + b"x" * 1_021 + b"\n") * (_BLOCK // 1_024)
    packed = [packer.compress(block) for _ in range(_UNPACKED_BLOCKS)]
    return b"".join(packed) + packer.flush()


class _Model:
    """Serves connections. `told`: requests that came to the other address."""

    def __init__(self) -> None:
        self.told = 0

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        """One connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                found = _LENGTH.search(head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                await self._answer(head, body, writer)
                await writer.drain()
        writer.close()

    async def _answer(self, head: bytes, body: bytes, writer: Writer) -> None:
        if writer.get_extra_info("sockname")[0] == ELSEWHERE:
            self.told += 1
            writer.write(answer(FORGED))
        elif head.startswith(b"GET /told"):
            told = str(self.told).encode()
            writer.write(b"HTTP/1.1 200 _\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told))
        else:
            question = json.loads(body)["messages"][-1].get("content")
            await self._generate(question if isinstance(question, str) else "", writer)

    async def _generate(self, question: str, writer: Writer) -> None:
        directive, _, name = question.partition(" ")
        if directive == "#attack":
            await BEHAVIOURS[name](writer)
            return
        tokens = demo_tokens(_parameter_in(_SEED, question, 1), _parameter_in(_TOKENS, question, 1))
        gap_seconds = _parameter_in(_GAP_MS, question, 0) / 1_000
        writer.write(_HEAD + b"\r\n")
        for token in tokens:
            writer.write(chunk(event(token)))
            await asyncio.sleep(gap_seconds)
        writer.write(chunked(end()))


async def _serve(port: int) -> None:
    model = _Model()
    _bomb()  # it takes a while, in which nobody else should wait
    hosts = ["127.0.0.1", ELSEWHERE]
    server = await asyncio.start_server(model.serve, hosts, port, backlog=1_024)
    await server.serve_forever()


if __name__ == "__main__":
    end_with_parent()
    uvloop.run(_serve(int(sys.argv[1])))
