"""Attacks on the time of the server by connections: many that say little, few that say much."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from tests.attack.asking import BROKEN
from tests.attack.attack import Judged, Scene, attack
from tests.attack.memory import REQUESTS
from tests.attack.tokens import session_token
from tests.attack.verdict import MIB
from tests.attack.wire import Connection
from tests.integration.raw_websocket import (
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    client_frame,
    text_frame,
)

_MANY = 8_100
_AT_ONCE = 200
_HEAD_SECONDS = 10.0
_BODY_SECONDS = 30.0
_KEEP_ALIVE_SECONDS = 75.0
_SESSION_CONNECTIONS = 8
_BURST = 64
_CUT_SECONDS = 6.0
"""A client may take so long to answer a close frame. Then it is cut."""
_RESPONSES = "/v1/responses"


async def _open(scene: Scene, count: int, data: bytes) -> list[Connection]:
    """As many connections, each with these bytes; fewer where the server refuses some."""
    opened: list[Connection] = []
    numbers = iter(range(count))

    async def open_some() -> None:
        for _ in numbers:
            with suppress(OSError):
                connection = await scene.attacker.connect()
                connection.send(data)
                opened.append(connection)

    await asyncio.gather(*[open_some() for _ in range(_AT_ONCE)])
    return opened


async def _watch(
    scene: Scene, connections: Sequence[Connection], seconds: float, what: str
) -> None:
    """All of these must have ended within so long, where the plan has the time to see it."""
    if scene.plan.watch_seconds < seconds:
        await asyncio.sleep(scene.plan.strike_seconds)
        scene.did(f"{len(connections):,} {what}")
        return
    reading = [asyncio.create_task(connection.discard()) for connection in connections]
    _, left = await asyncio.wait(reading, timeout=seconds)
    for task in left:
        task.cancel()
    scene.did(f"{len(connections):,} {what}, {len(left):,} open after {seconds:g} s")
    scene.must(not left, f"{len(left):,} {what} were open after {seconds:g} s")


@attack("half-bodies", short=True)
async def half_bodies(scene: Scene) -> None:
    """8,100 requests without a token begin a body and do not end it."""
    head = scene.attacker.request("POST", "/session", headers={"Content-Length": "1000"})
    await _watch(scene, await _open(scene, _MANY, head + b"{"), _BODY_SECONDS + 10, "half bodies")


@attack("half-heads")
async def half_heads(scene: Scene) -> None:
    """8,100 connections send half of a head, and nothing else."""
    half = b"POST /session HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
    await _watch(scene, await _open(scene, _MANY, half), _HEAD_SECONDS + 10, "half heads")


@attack("silent-connections")
async def silent_connections(scene: Scene) -> None:
    """8,100 connections are opened and say nothing."""
    await _watch(scene, await _open(scene, _MANY, b""), _HEAD_SECONDS + 10, "silent connections")


@attack("dripping-heads")
async def dripping_heads(scene: Scene) -> None:
    """500 connections send a byte of their head a second: the deadline is for all of it."""
    connections = await _open(scene, scene.scaled(500), b"GET /health HTTP/1.1\r\nX: ")

    async def drip() -> None:
        while True:
            await asyncio.sleep(1)
            for connection in connections:
                if not connection.writer.is_closing():
                    connection.send(b"x")

    dripping = asyncio.create_task(drip())
    await _watch(scene, connections, _HEAD_SECONDS + 10, "dripping heads")
    dripping.cancel()


@attack("silent-after-an-answer")
async def silent_after_an_answer(scene: Scene) -> None:
    """1,000 connections ask once, and are kept open by a stranger who never asks again."""
    request = scene.attacker.request("GET", "/health")
    connections = await _open(scene, scene.scaled(1_000), request)
    await _watch(scene, connections, _KEEP_ALIVE_SECONDS + 10, "idle connections of a stranger")


async def _flood(
    scene: Scene, frame: bytes, what: str, first: bytes = b"", path: str = "/ws"
) -> None:
    """32 WebSockets of four sessions send these frames as fast as they are taken."""
    until = monotonic() + scene.plan.strike_seconds
    block = frame * _BURST
    sent = closed = 0

    async def send(token: str) -> None:
        nonlocal sent, closed
        with suppress(*BROKEN):
            connection = await scene.attacker.connect()
            if (await connection.upgraded(token, path)).status != 101:
                return
            connection.send(first)
            reading = asyncio.create_task(connection.discard())
            sent += _BURST * await connection.flood(block, until)
            closed += reading.done()
            reading.cancel()

    tokens = [session_token() for _ in range(4)] * _SESSION_CONNECTIONS
    await asyncio.gather(*[send(token) for token in tokens])
    await asyncio.sleep(max(0.0, until - monotonic()))
    scene.did(f"{sent:,} {what} over {len(tokens)} WebSockets, {closed} cut")
    uncut = len(tokens) - closed
    is_due = scene.plan.strike_seconds > _CUT_SECONDS
    scene.must(not (is_due and uncut), f"{uncut} WebSockets were not cut")


@attack("pings", short=True)
async def pings(scene: Scene) -> None:
    """32 WebSockets send pings as fast as they are taken."""
    await _flood(scene, client_frame(PING, b"x"), "pings")


@attack("pongs")
async def pongs(scene: Scene) -> None:
    """32 WebSockets send pongs that nobody asked for as fast as they are taken."""
    await _flood(scene, client_frame(PONG), "pongs")


@attack("empty-fragments")
async def empty_fragments(scene: Scene) -> None:
    """32 WebSockets send a message of empty fragments that never ends."""
    first = client_frame(TEXT, final=False)
    await _flood(scene, client_frame(CONTINUATION, final=False), "empty fragments", first)


@attack("single-bytes")
async def single_bytes(scene: Scene) -> None:
    """32 WebSockets send a message a byte a fragment."""
    first = client_frame(TEXT, b" ", final=False)
    fragments = client_frame(CONTINUATION, b" ", final=False) * 98
    await _flood(scene, first + fragments + client_frame(CONTINUATION, b" "), "small messages")


@attack("responses-pings")
async def responses_pings(scene: Scene) -> None:
    """32 WebSockets of OpenAI's Responses API send pings as fast as they are taken."""
    await _flood(scene, client_frame(PING, b"x"), "pings", path=_RESPONSES)


@attack("responses-texts", short=True)
async def responses_texts(scene: Scene) -> None:
    """32 WebSockets of OpenAI's Responses API send messages of one byte."""
    await _flood(scene, client_frame(TEXT, b"x"), "messages", path=_RESPONSES)


@attack("responses-creates")
async def responses_creates(scene: Scene) -> None:
    """32 WebSockets of OpenAI's Responses API ask a model that is not there."""
    create = text_frame({"type": "response.create", "model": "nope", "input": "hi"})
    await _flood(scene, create, "requests", path=_RESPONSES)


@attack("responses-half-messages", fills=(REQUESTS,))
async def responses_half_messages(scene: Scene) -> None:
    """128 WebSockets of /v1/responses send 4 MiB of a message, and never its last byte."""
    await _half_messages(scene, 128, 4 * MIB - 64, _RESPONSES)


@attack("half-messages", fills=(REQUESTS,))
async def half_messages(scene: Scene) -> None:
    """4,000 WebSockets send 64 KB of a frame that has one byte more."""
    await _half_messages(scene, scene.scaled(4_000), 64_000, "/ws")


async def _half_messages(scene: Scene, count: int, size: int, path: str) -> None:
    part = client_frame(TEXT, b" " * size)[:-1]
    numbers, opened = iter(range(count)), 0

    async def send_some() -> None:
        nonlocal opened
        for _ in numbers:
            with suppress(*BROKEN):
                connection = await scene.attacker.connect()
                if (await connection.upgraded(session_token(), path)).status != 101:
                    continue
                opened += 1
                connection.send(part)
                await connection.writer.drain()

    await asyncio.gather(*[send_some() for _ in range(_AT_ONCE)])
    await asyncio.sleep(scene.plan.strike_seconds)
    scene.did(f"{opened:,} messages of {size:,} bytes, never ended")
    scene.must(opened > 0, "no WebSocket was opened")


@attack("packed-bodies", short=True)
async def packed_bodies(scene: Scene) -> None:
    """Requests without a token whose 64 KB unpack to 64 MB."""
    packed = gzip.compress(bytes(64 * 1_048_576), 9)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    until, sent = monotonic() + scene.plan.strike_seconds, 0

    async def send(path: str) -> None:
        nonlocal sent
        while monotonic() < until:
            with suppress(*BROKEN):
                async with scene.attacker.connection() as connection:
                    connection.send(scene.attacker.request("POST", path, packed, headers))
                    sent += 1
                    await connection.reply()

    paths = ("/session", "/chat/message", "/v1/chat/completions") * 3
    await asyncio.gather(*[send(path) for path in paths])
    scene.did(f"{sent:,} bodies of {len(packed):,} bytes")


@attack("garbled-bodies", Judged.BY_OUTCOME, short=True)
async def garbled_bodies(scene: Scene) -> None:
    """A body that says gzip and is none gets a 400, not a traceback."""
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    head = gzip.compress(bytes(1_000))[:10]
    for garbage in (b"this is no gzip", head + b"x" * 500, zlib.compress(b"{}")):
        for path in ("/session", "/chat/message", "/v1/chat/completions"):
            async with scene.attacker.connection() as connection:
                connection.send(scene.attacker.request("POST", path, garbage, headers))
                reply = await connection.reply()
            scene.must(400 <= reply.status < 500, f"{path} answered {reply.status}")
