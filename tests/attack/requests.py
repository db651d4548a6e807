"""Attacks by HTTP requests: reads without end, odd heads and bodies, and words for the log."""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from time import monotonic

from tests.attack.asking import BROKEN, ask_events, chat_message
from tests.attack.attack import Judged, Scene, attack
from tests.attack.tokens import session_token
from tests.attack.wire import bearer
from tests.fuzz.open_session import OpenSession
from tests.fuzz.protocol_requests import protocol_request

_READERS = 32
_MESSAGES = 3
_SHORT = "#demo tokens=2 gap_ms=0 first_token_ms=0"
_SENDERS, _ODD_REQUESTS, _OF_ONE_SESSION = 12, 3_000, 20
_LATE_SECONDS = 8.0
_SILENCE_SECONDS = 0.3


@attack("reads", short=True)
async def reads(scene: Scene) -> None:
    """32 connections read all that a token opens, again and again, also with wrong tokens."""
    session_id = f"ses_{secrets.token_hex(12)}"
    token = session_token(session_id)
    previous, response_id = None, ""
    for number in range(_MESSAGES):
        answer = await ask_events(scene.stranger, token, f"m{number}", previous, _SHORT)
        scene.must(not answer.error, f"nothing can be read: {answer.error}")
        previous, response_id = f"m{number}", answer.response_id
    over_at, statuses = monotonic() + scene.plan.strike_seconds, Counter[int]()
    requests = [
        scene.stranger.request("GET", path, headers=bearer(credential))
        for credential in (token, f"{token[:-3]}abc")
        for path in _readable(session_id, response_id)
    ]

    async def read_on(first: int) -> None:
        each = itertools.cycle(requests[first:] + requests[:first])
        while monotonic() < over_at:
            with suppress(*BROKEN):
                async with scene.stranger.connection() as connection:
                    while monotonic() < over_at:
                        connection.send(next(each))
                        if not (status := (await connection.reply()).status):
                            break
                        statuses[status] += 1

    await asyncio.gather(*[read_on(number % len(requests)) for number in range(_READERS)])
    scene.did(f"{statuses.total():,} reads, by status: {dict(statuses)}")


def _readable(session_id: str, response_id: str) -> tuple[str, ...]:
    response = f"/chat/message/{response_id}"
    return (
        f"/session/{session_id}/messages?limit=100",
        f"/session/{session_id}/messages?before=nope&limit=100",
        f"{response}?timeout_ms=0",
        f"{response}/entries/1/0-1",
        f"{response}/events",
        f"/streams/{response_id}",
        "/v1/models",
        "/usage",
        "/openapi.json",
        "/evenflow-chat.js",
    )


# -- heads -----------------------------------------------------------------------------------------

_HOST = b"Host: 127.0.0.1\r\n"
_WHOLE_REQUEST = b"GET /health HTTP/1.1\r\n" + _HOST + b"\r\n"
_UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def _post(headers: bytes, body: bytes = b"{}") -> bytes:
    return b"POST /session HTTP/1.1\r\n" + _HOST + headers + b"\r\n\r\n" + body


_UNCLEAR = {
    "two kinds of length": _post(b"Content-Length: 4\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
    "two lengths": _post(b"Content-Length: 2\r\nContent-Length: 3"),
    "a signed length": _post(b"Content-Length: +2"),
    "a hexadecimal length": _post(b"Content-Length: 0x2"),
    "an unknown coding": _post(b"Transfer-Encoding: xchunked", b"0\r\n\r\n"),
    "chunks within": _post(b"Transfer-Encoding: chunked, identity", b"0\r\n\r\n"),
    "two codings": _post(
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"0\r\n\r\n"
    ),
    "a huge chunk": _post(b"Transfer-Encoding: chunked", b"ffffffffffffffff2\r\n{}\r\n0\r\n\r\n"),
    "a space before the colon": _post(b"Content-Length : 2"),
    "a folded line": b"GET /health HTTP/1.1\r\n" + _HOST + b"X: a\r\n b\r\n\r\n",
    "a lone CR": b"GET /health HTTP/1.1\r\n" + _HOST + b"X: a\rX-Y: b\r\n\r\n",
    "a NUL": b"GET /health HTTP/1.1\r\n" + _HOST + b"X: a\0b\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\n" + _HOST + b"Host: attacker.example\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
"""Requests of which two readers could see different ends or hosts."""
_UPGRADES = {
    "to no path": b"GET /nope HTTP/1.1\r\n" + _HOST + _UPGRADE + b"\r\n",
    "without a token": b"GET /ws HTTP/1.1\r\n" + _HOST + _UPGRADE + b"\r\n",
    "with a body": b"GET /ws HTTP/1.1\r\n"
    + _HOST
    + _UPGRADE
    + b"Content-Length: %d\r\n\r\n" % len(_WHOLE_REQUEST)
    + _WHOLE_REQUEST,
}


@attack("unclear-requests", Judged.BY_OUTCOME, short=True)
async def unclear_requests(scene: Scene) -> None:
    """A second request follows one whose end is unclear. The second must not be answered."""
    for name, request in _UNCLEAR.items():
        statuses = await _statuses(scene, request + _WHOLE_REQUEST)
        is_refused = len(statuses) <= 1 and all(status >= 400 for status in statuses)
        scene.must(is_refused, f"{name}: answered {statuses}")
    for name, request in _UPGRADES.items():
        # A proxy that takes a refused upgrade for an accepted one passes on unread what follows.
        statuses = await _statuses(scene, _WHOLE_REQUEST + request + _WHOLE_REQUEST)
        is_refused = statuses[:1] == [200] and all(status >= 400 for status in statuses[1:])
        scene.must(is_refused and len(statuses) <= 2, f"an upgrade {name}: answered {statuses}")
    scene.did(f"{len(_UNCLEAR) + len(_UPGRADES)} requests")


async def _statuses(scene: Scene, data: bytes) -> list[int]:
    """The statuses of all answers to these bytes."""
    statuses = list[int]()
    async with scene.stranger.connection() as connection:
        connection.send(data)
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(_SILENCE_SECONDS):
                    reply = await connection.reply()
                if not reply.status:
                    break
                statuses.append(reply.status)
    return statuses


# -- bodies ----------------------------------------------------------------------------------------


@attack(
    "odd-bodies",
    stores_mib=256,
    settings={"EVENFLOW_MODELS": "demo,default"},
    hostile_model=True,
)
async def odd_bodies(scene: Scene) -> None:
    """3,000 requests of every protocol have odd values: none ends in a fault of the server."""
    numbers, statuses = iter(range(scene.scaled(_ODD_REQUESTS))), Counter[int]()
    slowest = 0.0

    async def send() -> None:
        nonlocal slowest
        async for request in _odd_requests(scene, numbers):
            began_at = monotonic()
            with suppress(*BROKEN):
                async with scene.stranger.connection() as connection:
                    connection.send(request)
                    statuses[(await connection.reply()).status] += 1
            slowest = max(slowest, monotonic() - began_at)

    await asyncio.gather(*[send() for _ in range(_SENDERS)])
    scene.did(f"{statuses.total():,} requests, by status: {dict(statuses)}")
    scene.must(statuses[500] == 0, f"{statuses[500]} faults of ours")
    scene.must(slowest < _LATE_SECONDS, f"one took {slowest:.1f} s")


async def _odd_requests(scene: Scene, numbers: Iterator[int]) -> AsyncIterator[bytes]:
    """Requests of one session, and then of another: some end the session that they name."""
    for first in numbers:
        name = f"ses_{secrets.token_hex(12)}"
        token = session_token(name)
        answer = await ask_events(scene.stranger, token, "m1", None, _SHORT)
        session = OpenSession(token.encode(), answer.response_id.encode(), name.encode())
        for number in (first, *itertools.islice(numbers, _OF_ONE_SESSION - 1)):
            yield protocol_request(random.Random(number), session)


# -- the log ---------------------------------------------------------------------------------------

_FORGED = '{"level":"ERROR","message":"forged"}'
_WORDS = f"x\n{_FORGED}\x1b[31m\u2028\u202e"
# The log has one line a second of each kind.
_LOGGED_SECONDS = 1.5
_COMMANDS = ("\x1b", "\u2028", "\u202e")


@attack("words-for-the-log", Judged.BY_OUTCOME, short=True)
async def words_for_the_log(scene: Scene) -> None:
    """Names, texts, paths and origins have line ends and a terminal's commands in them."""
    began_at, client = scene.target.log_bytes, scene.stranger
    session = bearer(session_token())
    message = chat_message(_WORDS[:100], None, _SHORT)
    message["payload"]["metadata"] = {"a": _WORDS}
    await client.call("POST", "/chat/message", message, session)
    for name in ("user", "agent", "tenant", "session_id"):
        await client.call("POST", "/session", {name: _WORDS})
    await client.call("POST", "/session", {}, {"Origin": "http://x\x1b[31m.example"})
    question = [{"role": "user", "content": _SHORT}]
    await client.call("POST", "/v1/chat/completions", {"model": _WORDS, "messages": question})
    for path in ("/nope", "/v1/models/", "/v1/responses/resp_", "/streams/"):
        await client.call("GET", f"{path}%0aforged%1b[31m%e2%80%ae", headers=session)
    async with client.connection() as connection:
        connection.send(b"GET /\n\x1b[31mforged HTTP/9.9\r\n\r\n")
        await connection.reply()
    await asyncio.sleep(_LOGGED_SECONDS)
    logged = scene.target.log_file.read_bytes()[began_at:].decode(errors="replace")
    lines = logged.split("\n")
    forged = [line for line in lines if line.startswith((_FORGED, "forged"))]
    scene.did(f"{len(lines) - 1} lines in the log")
    scene.must(not forged, f"{len(forged)} lines are the attacker's: {forged[:1]}")
    for command in _COMMANDS:
        scene.must(command not in logged, f"the log has {command!r} as it was sent")
