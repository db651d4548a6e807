"""Attacks at the ends of connections and of the server, and on its log."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from time import monotonic

from tests.attack.asking import BROKEN, chat_message
from tests.attack.attack import Judged, Scene, attack
from tests.attack.tokens import KEY_ID, SECRET, session_token
from tests.attack.wire import Client
from tests.chaos.waiting import until
from tests.integration.raw_websocket import (
    CLOSE,
    CONTINUATION,
    PING,
    TEXT,
    RawWebSocket,
    client_frame,
    text_frame,
)
from tests.integration.server_process import clean_environment, free_port, server_command

_CUT_SECONDS = 5.0
_STOP_SECONDS = 15.0
_LEGAL_CODES = {*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)}
# More than sockets take, and less than a client may be behind.
_LONG_ANSWER = "#demo tokens=30000 gap_ms=0 first_token_ms=0"
_SHORT_ANSWER = "#demo tokens=1 gap_ms=0"
_LEFT_SECONDS = 2.0
_NONSENSE = client_frame(0x3, b"no such opcode")


async def _deaf_client(scene: Scene, last: bytes) -> RawWebSocket:
    """A WebSocket that takes nothing more of its answer, and then sends these bytes."""
    connection = await scene.attacker.connect(receive_buffer=2_048)
    websocket = await connection.upgraded(session_token())
    websocket.write(text_frame({"type": "chat.message", **chat_message("m1", None, _LONG_ANSWER)}))
    await asyncio.sleep(1.0)
    websocket.write(last)
    return websocket


@attack("closes-and-does-not-read", Judged.BY_OUTCOME, short=True)
async def closes_and_does_not_read(scene: Scene) -> None:
    """Clients whose windows are full send Close or nonsense: their sockets are gone after 5 s."""
    endings = (client_frame(CLOSE, (1000).to_bytes(2, "big")), _NONSENSE)
    await asyncio.gather(*[_deaf_client(scene, endings[number % 2]) for number in range(50)])
    open_at_first = scene.target.sockets_of(scene.attacker.address)
    await until(lambda: not scene.target.sockets_of(scene.attacker.address), _CUT_SECONDS + 2)
    left = scene.target.sockets_of(scene.attacker.address)
    scene.did(f"{open_at_first} deaf clients, {left} left")
    scene.must(left == 0, f"{left} of 50 deaf clients were there after {_CUT_SECONDS + 2:g} s")


@attack("holds-up-a-stop", Judged.ALONE)
async def holds_up_a_stop(scene: Scene) -> None:
    """Clients whose windows are full send Close or nonsense before or while the server leaves: it
    does not wait for them.
    """
    close = client_frame(CLOSE, (1000).to_bytes(2, "big"))
    late = await asyncio.gather(*[_deaf_client(scene, last) for last in (b"", close, _NONSENSE)])
    began = monotonic()
    scene.target.send_signal(signal.SIGTERM)
    await asyncio.sleep(1.0)
    late[0].write(close)
    try:
        await scene.target.ended(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        scene.must(False, f"the server ran on for {_STOP_SECONDS:g} s after SIGTERM")
    scene.did(f"ended {monotonic() - began:.1f} s after SIGTERM")


@attack("close-codes", Judged.BY_OUTCOME, short=True)
async def close_codes(scene: Scene) -> None:
    """No bytes of a client make the server send a close frame with an illegal code or payload."""
    codes = (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 32_768, 65_535)
    endings = [client_frame(CLOSE, code.to_bytes(2, "big")) for code in codes]
    endings += [
        client_frame(CLOSE, b"\x03"),
        client_frame(CLOSE, b"\x03\xe8\xff\xfe"),
        client_frame(CLOSE, final=False),
        client_frame(CLOSE, b"\x03\xe8" + b"x" * 124),
        client_frame(PING, b"x" * 126),
        client_frame(CONTINUATION, b"x"),
        client_frame(TEXT, b"\xff\xfe"),
        client_frame(TEXT, b"{}", masked=False),
        client_frame(0x3, b"x"),
        client_frame(TEXT, b"{}", reserved=4),
    ]
    for ending in endings:
        async with scene.attacker.connection() as connection:
            websocket = await connection.upgraded(session_token())
            websocket.write(ending)
            wrong = await _illegal_end(websocket)
        scene.must(not wrong, f"{ending[:16].hex()} is answered with {wrong}")
    scene.did(f"{len(endings)} endings")


async def _illegal_end(websocket: RawWebSocket) -> str:
    with suppress(*BROKEN):
        while True:
            frame = await websocket.frame(5.0)
            if frame.opcode != CLOSE:
                continue
            if len(frame.payload) == 1 or len(frame.payload) > 125:
                return f"a close frame of {len(frame.payload)} bytes"
            legal = not frame.payload or frame.close_code in _LEGAL_CODES
            return "" if legal else f"the close code {frame.close_code}"
    return ""


@attack("outlived-tokens", Judged.BY_OUTCOME, short=True)
async def outlived_tokens(scene: Scene) -> None:
    """WebSockets of every protocol are used after their token has expired: nothing is answered."""
    requests = {
        "/ws": {"type": "chat.message", **chat_message("m1", None, _SHORT_ANSWER)},
        "/v1/realtime": {"type": "start", "id": "m1", "previous": None, "text": _SHORT_ANSWER},
        "/v1/responses": {"type": "response.create", "model": "demo", "input": _SHORT_ANSWER},
    }
    protocols = {"/v1/realtime": "evenflow.realtime.v1"}
    for path, request in requests.items():
        token = session_token(age_seconds=3_600 - _LEFT_SECONDS)
        async with scene.attacker.connection() as connection:
            protocol = protocols.get(path, "evenflow.v1")
            header = f"Authorization: Bearer {token}\r\n"
            websocket = await connection.upgraded(token, path, protocol, header)
            scene.must(websocket.status == 101, f"{path} is answered {websocket.status}")
            await asyncio.sleep(_LEFT_SECONDS + 1.0)
            websocket.write(text_frame(request))
            codes = list[str]()
            while (frame := await websocket.frame(5.0)).opcode != CLOSE:
                if frame.opcode == TEXT and "error" in frame.json:
                    codes.append(str(frame.json["error"]["code"]))
        scene.must(codes == ["token_expired"], f"{path} answers {codes} after the token's end")
    scene.did(f"{len(requests)} protocols")


@attack("drain-from-outside", Judged.ALONE, short=True)
async def drain_from_outside(scene: Scene) -> None:
    """`POST /drain` comes through a plain proxy on this machine, which adds no header."""
    for headers in ({"Host": "chat.example.com"}, {}):
        reply = await scene.other.call("POST", "/drain", headers=headers)
        scene.must(reply.status >= 400, f"/drain answers {reply.status} for {headers}")
    health = await scene.other.call("GET", "/health")
    scene.must(health.status == 200, f"/health says {health.status}")


async def _flood_requests(scene: Scene, request: bytes) -> int:
    over_at, sent = monotonic() + scene.plan.strike_seconds, 0

    async def send() -> None:
        nonlocal sent
        while monotonic() < over_at:
            with suppress(*BROKEN):
                async with scene.attacker.connection() as connection:
                    connection.send(request)
                    await connection.reply()
                    sent += 1

    await asyncio.gather(*[send() for _ in range(32)])
    return sent


@attack("malformed-requests")
async def malformed_requests(scene: Scene) -> None:
    """Requests that no parser takes, as fast as they are answered: the log says so seldom."""
    sent = await _flood_requests(scene, b"GET / HTTP/1.1\r\nHost: x\r\nbad header\x00: y\r\n\r\n")
    scene.did(f"{sent:,} malformed requests")


@attack("malformed-frames", short=True)
async def malformed_frames(scene: Scene) -> None:
    """WebSockets whose first frame no parser takes, one after the other: the log says so seldom."""
    over_at, sent = monotonic() + scene.plan.strike_seconds, 0

    async def send() -> None:
        nonlocal sent
        token = session_token()
        while monotonic() < over_at:
            taken = await _send_nonsense(scene.attacker, token)
            sent += taken

    await asyncio.gather(*[send() for _ in range(16)])
    scene.did(f"{sent:,} malformed frames")


async def _send_nonsense(client: Client, token: str) -> bool:
    with suppress(OSError, asyncio.IncompleteReadError):
        async with client.connection() as connection:
            websocket = await connection.upgraded(token)
            websocket.write(_NONSENSE)
            await websocket.close_code(5.0)
            return True
    return False


@attack("garbled-gzip")
async def garbled_gzip(scene: Scene) -> None:
    """Bodies that say gzip and are none, as fast as they are answered: no traceback a request."""
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    request = scene.attacker.request("POST", "/session", b"this is no gzip", headers)
    sent = await _flood_requests(scene, request)
    scene.did(f"{sent:,} garbled bodies")


@attack("unread-log", Judged.ALONE)
async def unread_log(scene: Scene) -> None:
    """Nobody reads the pipe that the server logs to, and many things are logged."""
    reading, writing = os.pipe()
    port = free_port()
    settings = {
        "EVENFLOW_HTTP_PORT": str(port),
        "EVENFLOW_STORE": "memory",
        "EVENFLOW_TOKEN_KEYS": f"{KEY_ID}:{SECRET}",
    }
    process = await asyncio.create_subprocess_exec(
        *server_command(), env=clean_environment(settings), stdout=writing, stderr=writing
    )
    os.close(writing)
    client = Client(port, scene.attacker.address)
    try:
        await _until_healthy(client)
        for _ in range(600):
            async with asyncio.timeout(3.0):
                await _send_nonsense(client, session_token())
    except TimeoutError:
        scene.must(False, "the server answers nobody any more")
    finally:
        process.kill()
        await process.wait()
        os.close(reading)
    scene.did(f"{client.opened:,} connections")


async def _until_healthy(client: Client) -> None:
    async with asyncio.timeout(20.0):
        while (await client.call("GET", "/health")).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@attack("stopped-for-a-minute", Judged.ALONE)
async def stopped_for_a_minute(scene: Scene) -> None:
    """The server is stopped for 65 s: clients that live are not cut off when it goes on."""
    websockets = [await scene.other.websocket(session_token()) for _ in range(10)]
    reading = [asyncio.create_task(_close_code(websocket)) for websocket in websockets]
    with scene.target.suspended():
        await asyncio.sleep(65.0)
    done, waiting = await asyncio.wait(reading, timeout=10.0)
    for task in waiting:
        task.cancel()
    codes = [task.result() for task in done]
    scene.did(f"10 clients, {len(waiting)} connected afterwards")
    scene.must(not codes, f"live clients were closed with {codes}")


async def _close_code(websocket: RawWebSocket) -> int:
    """Answer pings until the server closes; with which code."""
    with suppress(*BROKEN):
        while True:
            frame = await websocket.frame(120.0)
            if frame.opcode == PING:
                websocket.write(client_frame(0xA, frame.payload))
            elif frame.opcode == CLOSE:
                return frame.close_code
    return 1006
