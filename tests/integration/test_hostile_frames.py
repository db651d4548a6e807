"""Frames that no honest client sends: a clear answer each, and nobody else is harmed."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Frame
from tests.integration.chat_client import ChatSession, chat_message, checked_error, demo
from tests.integration.conftest import OpenSession, Serve, ServeProcess
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    RawWebSocket,
    client_frame,
    text_frame,
)
from tests.integration.server_process import Server

_LIMIT = 65_536
_MEGABYTE = 1_048_576


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    """A server that is patient with protocol errors and rates, so that each frame gets its own
    answer.
    """
    return await serve(protocol_errors_per_minute=10_000, messages_per_second=10_000)


@asynccontextmanager
async def _bystander(opened: OpenSession, server: Server) -> AsyncIterator[None]:
    """While this is open another client reads an answer, and at the end it has it byte for byte."""
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=40, gap_ms=8, seed=21))
        reading = asyncio.create_task(connection.whole(start["response_id"]))
        await asyncio.sleep(0.05)
        try:
            yield
            answer = await reading
        finally:
            reading.cancel()
        assert answer.text == "".join(demo_tokens(21, 40))
        assert (await session.poll(start["response_id"])).json["full_text"] == answer.text


@asynccontextmanager
async def _raw(session: ChatSession, server: LocalServer) -> AsyncIterator[RawWebSocket]:
    async with await RawWebSocket.connect(server.port) as raw:
        assert await raw.handshake(session.token) == 101
        await raw.next_of("session.ready")
        yield raw


async def _still_open(raw: RawWebSocket) -> None:
    raw.write(client_frame(PING, b"still there?"))
    while (frame := await raw.frame())[::2] != (PONG, b"still there?"):
        assert frame.opcode != CLOSE, frame.payload


# -- refused, and the connection stays -------------------------------------------------------------

_MESSAGE = {"type": "chat.message", **chat_message("m1", None, "x")}
_RESUME = {"type": "response.resume", "response_id": "rsp_x", "after": -1}

_NOT_JSON = [
    b"",
    b" ",
    b"{",
    b"nope",
    b"{'type': 1}",
    b"\x00",
    b"{}\x00",
    b"{} {}",
    b"\xef\xbb\xbf{}",
    b"[" * 30_000,
    b'{"a":' * 8_000 + b"1" + b"}" * 8_000,
    b'{"type":"chat.message","message_id":"\\ud800","payload":{"text":"x"}}',
]
_NOT_AN_OBJECT = [
    b"[]",
    b"NaN",
    b"1",
    b"-0.5",
    b'"chat.message"',
    b"null",
    b"true",
    b"[[0,1]]",
    b'["chat.message"]',
]
_UNKNOWN_TYPE: list[Frame] = [
    {},
    {"type": "nope"},
    {"type": None},
    {"type": 7},
    {"type": ["chat.message"]},
    {"type": {"chat.message": 1}},
    {"type": "chat.response.delta", "delta": "x", "index": 0},
    {"type": "Chat.Message"},
    {"type": "x" * 60_000},
]
_INVALID_FIELD: list[tuple[Frame, str]] = [
    ({"type": "chat.message"}, "message_id"),
    (_MESSAGE | {"message_id": ""}, "message_id"),
    (_MESSAGE | {"message_id": "m" * 129}, "message_id"),
    (_MESSAGE | {"message_id": "m" * 60_000}, "message_id"),
    (_MESSAGE | {"message_id": 7}, "message_id"),
    (_MESSAGE | {"message_id": None}, "message_id"),
    (_MESSAGE | {"previous_message_id": ""}, "previous_message_id"),
    (_MESSAGE | {"previous_message_id": ["m0"]}, "previous_message_id"),
    ({"type": "chat.message", "message_id": "m1"}, "payload"),
    (_MESSAGE | {"payload": None}, "payload"),
    (_MESSAGE | {"payload": "x"}, "payload"),
    (_MESSAGE | {"payload": []}, "payload"),
    (_MESSAGE | {"payload": {}}, "payload.text"),
    (_MESSAGE | {"payload": {"text": ""}}, "payload.text"),
    (_MESSAGE | {"payload": {"text": 1}}, "payload.text"),
    (_MESSAGE | {"payload": {"text": ["x"]}}, "payload.text"),
    ({"type": "response.resume", "response_id": "rsp_x"}, "after"),
    (_RESUME | {"after": -2}, "after"),
    (_RESUME | {"after": 1.5}, "after"),
    (_RESUME | {"after": "1"}, "after"),
    (_RESUME | {"after": True}, "after"),
    (_RESUME | {"after": None}, "after"),
    (_RESUME | {"response_id": 1}, "response_id"),
    ({"type": "response.pause"}, "response_id"),
    ({"type": "response.continue", "response_id": None}, "response_id"),
    ({"type": "response.cancel", "response_id": {}}, "response_id"),
    ({"type": "response.ack", "response_id": "rsp_x"}, "index"),
    ({"type": "response.ack", "response_id": "rsp_x", "index": -5}, "index"),
]


async def test_what_is_not_understood_is_refused_and_the_connection_stays(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with _bystander(opened, server), _raw(session, server) as raw:
        for payload in _NOT_JSON + _NOT_AN_OBJECT:
            raw.write(client_frame(TEXT, payload))
            error = checked_error(await raw.next_of("error"))
            assert error["type"] == "invalid_request_error", payload[:50]
            wanted = (
                ("invalid_json",)
                if payload in _NOT_JSON
                else ("invalid_json", "invalid_field", "unknown_type")
            )
            assert error["code"] in wanted, (payload[:50], error)
        for message in _UNKNOWN_TYPE:
            raw.write(text_frame(message))
            error = checked_error(await raw.next_of("error"))
            assert (error["type"], error["code"]) == ("invalid_request_error", "unknown_type"), (
                message
            )
        for message, param in _INVALID_FIELD:
            raw.write(text_frame(message))
            error = checked_error(await raw.next_of("error"))
            assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_field"), (
                message
            )
            assert error["param"] == param, message
            assert len(error["message"]) < 1000
        await _still_open(raw)
        raw.write(
            text_frame(
                {"type": "chat.message", **chat_message("m1", None, demo(tokens=3, gap_ms=1))}
            )
        )
        await raw.next_of("chat.response.completed")


async def test_an_error_names_the_message_or_response_that_the_frame_named(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with _raw(session, server) as raw:
        raw.write(text_frame(_MESSAGE | {"message_id": "m7", "payload": {"text": 1}}))
        assert (await raw.next_of("error"))["message_id"] == "m7"
        raw.write(text_frame(_RESUME | {"response_id": "rsp_7", "after": "x"}))
        assert (await raw.next_of("error"))["response_id"] == "rsp_7"


async def test_numbers_beyond_every_index(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, demo(tokens=5, gap_ms=1))
        response_id = answer.frames[-1]["response_id"]
        for huge in (2**31, 2**63, 10**40):
            await connection.send("response.resume", response_id=response_id, after=huge)
            assert checked_error(await connection.next_of("error"))["code"] == "invalid_field"
            await connection.send("response.ack", response_id=response_id, index=huge)
            assert checked_error(await connection.next_of("error"))["code"] == "invalid_field"


async def test_odd_but_legal_identifiers_and_texts(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with _raw(session, server) as raw:
        previous = None
        for message_id in (
            "a\x00b",
            "m" * 128,
            "日本語 🙂",
            'quo"te\\',
            "line\nbreak\r",
            " ",
            "\u2028",
        ):
            message = {
                "type": "chat.message",
                **chat_message(message_id, previous, demo(tokens=2, gap_ms=1)),
            }
            raw.write(text_frame(message))
            assert (await raw.next_of("chat.response.start"))["message_id"] == message_id
            assert (await raw.next_of("chat.response.completed"))["message_id"] == message_id
            previous = message_id
    async with session.connect() as connection:
        assert connection.ready["last_message_id"] == previous


# -- framing ---------------------------------------------------------------------------------------


def _fragments(payload: bytes, chance: random.Random) -> bytes:
    """One text message, cut anywhere (within characters too) into frames, with pings in between."""
    cuts = sorted(chance.sample(range(len(payload) + 1), chance.randint(0, min(8, len(payload)))))
    pieces = [
        payload[start:end] for start, end in zip([0, *cuts], [*cuts, len(payload)], strict=True)
    ]
    parts = []
    for number, piece in enumerate(pieces):
        parts.append(
            client_frame(CONTINUATION if number else TEXT, piece, final=number == len(pieces) - 1)
        )
        if chance.random() < 0.3:
            parts.append(client_frame(PING, b"between"))
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(3))
async def test_fragments_and_segments_anywhere(
    opened: OpenSession, server: LocalServer, seed: int
) -> None:
    chance = random.Random(seed)
    session = await opened(server)
    names = [f"rsp_{number}_Größe流れ🙂" for number in range(30)]
    frames = [
        _fragments(json.dumps(_RESUME | {"response_id": name}, ensure_ascii=False).encode(), chance)
        for name in names
    ]
    stream = b"".join(frames)
    async with _bystander(opened, server), _raw(session, server) as raw:
        position = 0
        while position < len(stream):
            size = chance.choice([1, 1, 2, 7, 100, 5000])
            raw.write(stream[position : position + size])
            await raw.drain()
            await asyncio.sleep(0)
            position += size
        for name in names:
            assert (await raw.next_of("error"))["response_id"] == name
        await _still_open(raw)


async def test_many_messages_in_one_segment_and_one_byte_by_byte(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with _bystander(opened, server), _raw(session, server) as raw:
        raw.write(
            b"".join(text_frame(_RESUME | {"response_id": f"rsp_{number}"}) for number in range(50))
        )
        for number in range(50):
            assert (await raw.next_of("error"))["response_id"] == f"rsp_{number}"
        for byte in text_frame(_RESUME | {"response_id": "rsp_slow"}):
            raw.write(bytes([byte]))
            await asyncio.sleep(0.001)
        assert (await raw.next_of("error"))["response_id"] == "rsp_slow"


async def test_a_ping_gets_its_pong(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with _raw(session, server) as raw:
        for payload in (b"", b"x", bytes(range(125))):
            raw.write(client_frame(PING, payload))
            frame = await raw.frame()
            assert (frame.opcode, frame.final, frame.payload) == (PONG, True, payload)
        raw.write(client_frame(PONG, b"unasked"))
        await _still_open(raw)


# -- closed ----------------------------------------------------------------------------------------

_TOO_LARGE = json.dumps(_MESSAGE | {"payload": {"text": "x" * _LIMIT}}).encode()
_JUST_RIGHT = json.dumps(_RESUME).encode().ljust(_LIMIT)

_CLOSING = {
    "binary": (client_frame(BINARY, b"{}"), {1003}),
    "binary of nothing": (client_frame(BINARY, b""), {1003}),
    "not UTF-8": (client_frame(TEXT, b'{"type":"\xff"}'), {1007}),
    "an encoded surrogate": (client_frame(TEXT, b'"\xed\xa0\x80"'), {1007}),
    "a cut character": (client_frame(TEXT, b'"\xe6\xb5"'), {1007}),
    "one byte too large": (client_frame(TEXT, _JUST_RIGHT + b" "), {1009}),
    "too large": (client_frame(TEXT, _TOO_LARGE), {1009}),
    "four times too large": (client_frame(TEXT, b" " * (4 * _LIMIT)), {1009}),
    "an announcement of 4 EB": (
        bytes([0x81, 0xFF]) + (1 << 62).to_bytes(8, "big") + b"mask" + b"x" * 100,
        {1009},
    ),
    "too large in fragments": (
        client_frame(TEXT, b" " * 40_000, final=False) + client_frame(CONTINUATION, b" " * 40_000),
        {1009},
    ),
    "fragments without end": (
        client_frame(TEXT, b" " * 1000, final=False)
        + client_frame(CONTINUATION, b" " * 1000, final=False) * 80,
        {1009},
    ),
    # RFC 6455 wants these connections failed; 1002 is its code for them.
    "unmasked": (client_frame(TEXT, b"{}", masked=False), {1002}),
    "reserved bits": (client_frame(TEXT, b"{}", reserved=4), {1002}),
    "a reserved opcode": (client_frame(0x3, b"{}"), {1002}),
    "a reserved control opcode": (client_frame(0xB, b""), {1002}),
    "a large ping": (client_frame(PING, b"x" * 126), {1002}),
    "a fragmented ping": (client_frame(PING, b"x", final=False), {1002}),
    "a continuation of nothing": (client_frame(CONTINUATION, b"{}"), {1002}),
    "text within a fragmented text": (
        client_frame(TEXT, b"{", final=False) + client_frame(TEXT, b"{}"),
        {1002},
    ),
    "binary fragments": (
        client_frame(BINARY, b"{", final=False) + client_frame(CONTINUATION, b"}"),
        {1003},
    ),
}


async def test_a_broken_protocol_closes_only_its_own_connection(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    wrong = {}
    async with _bystander(opened, server), session.connect() as sibling:
        for what, (data, codes) in _CLOSING.items():
            async with _raw(session, server) as raw:
                raw.write(data)
                try:
                    code = await raw.close_code(seconds=10)
                except TimeoutError:
                    code = 0
                if code not in codes:
                    wrong[what] = code
                    continue
                # Answered with our close frame, the socket ends.
                raw.write(client_frame(CLOSE, (1000).to_bytes(2, "big")))
                await raw.ended()
        answer = await sibling.ask("m1", None, demo(tokens=3, gap_ms=1))
        assert answer.finish_reason == "stop"
    assert not wrong


async def test_a_message_of_exactly_the_limit(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    async with _raw(session, server) as raw:
        raw.write(client_frame(TEXT, _JUST_RIGHT))
        assert checked_error(await raw.next_of("error"))["code"] == "response_not_found"
        half = len(_JUST_RIGHT) // 2
        raw.write(
            client_frame(TEXT, _JUST_RIGHT[:half], final=False)
            + client_frame(CONTINUATION, _JUST_RIGHT[half:])
        )
        assert checked_error(await raw.next_of("error"))["code"] == "response_not_found"


# Which codes are legal is tested where it is decided, for all of them.
_CLOSES: dict[str, tuple[bytes, bytes]] = {
    "empty": (b"", b""),
    "with a long reason": (b"\x03\xe8" + b"x" * 123, b"\x03\xe8"),
    "half a code": (b"\x03", b"\x03\xea"),
    "a reason cut inside a character": (b"\x03\xe8\xe6\xb5", b"\x03\xef"),
    "an illegal code with a reason": (b"\x13\x88why", b"\x03\xea"),
}


@pytest.mark.parametrize(("payload", "answered"), _CLOSES.values(), ids=_CLOSES)
async def test_the_clients_close_is_answered(
    opened: OpenSession, server: LocalServer, payload: bytes, answered: bytes
) -> None:
    """RFC 6455, 5.5.1 and 7.4: with its own code, an empty one with an empty one, and an illegal
    one with 1002.
    """
    session = await opened(server)
    async with _raw(session, server) as raw:
        raw.write(client_frame(CLOSE, payload))
        frame = await raw.frame()
        assert frame.opcode == CLOSE
        assert frame.payload[:2] == answered
        assert len(frame.payload) == len(answered) or answered[:2] in (b"\x03\xea", b"\x03\xef")
        await raw.ended()
    await server.until_metric("ws_active_connections", 0)


async def test_one_that_keeps_at_it_is_closed(opened: OpenSession, serve: Serve) -> None:
    server = await serve(protocol_errors_per_minute=5)
    session = await opened(server)
    async with _bystander(opened, server), _raw(session, server) as raw:
        for _ in range(5):
            raw.write(client_frame(TEXT, b"?"))
            checked_error(await raw.next_of("error"))
        raw.write(client_frame(TEXT, b"?") * 3)
        assert await raw.close_code() == 1008


async def test_too_many_frames_are_throttled(opened: OpenSession, serve: Serve) -> None:
    server = await serve(messages_per_second=2, protocol_errors_per_minute=1000)
    session = await opened(server)
    async with session.connect() as connection:
        for number in range(6):
            await connection.send("response.pause", response_id=f"rsp_{number}")
        throttled = await connection.next_of("throttle")
        error = checked_error(throttled)
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limited")
        assert throttled["retry_after_ms"] > 0
        await asyncio.sleep(throttled["retry_after_ms"] / 1000 + 0.7)
        assert (await connection.ask("m1", None, demo(tokens=3, gap_ms=1))).finish_reason == "stop"


async def test_one_that_sends_and_never_reads_costs_no_memory(
    opened: OpenSession, serve_process: ServeProcess
) -> None:
    """What the server would answer must not pile up: it doesn't answer, or closes."""
    # Neither rates nor errors end the flood before its answers could.
    server = serve_process(messages_per_second=100_000, protocol_errors_per_minute=10_000)
    session = await opened(server)
    message = {"type": "chat.message", **chat_message("m1", None, demo(tokens=1, gap_ms=1))}
    floods = {
        "pings": (client_frame(PING, b"p" * 125), 127),
        "nonsense": (client_frame(TEXT, b"?"), 170),
        "repeated messages": (text_frame(message), 500),
    }

    async def flood(frame: bytes, answered_bytes: int, megabytes: int) -> int:
        """Send what is answered with so much; the server's memory while the connection is still
        there.
        """
        many = frame * 1000
        async with await RawWebSocket.connect(server.port, receive_buffer=4096) as raw:
            assert await raw.handshake(session.token) == 101
            try:
                async with asyncio.timeout(20):
                    for _ in range(megabytes * _MEGABYTE // (answered_bytes * 1000)):
                        raw.write(many)
                        await raw.drain()
            except (TimeoutError, ConnectionError):
                pass  # it doesn't read any more, or has closed: both are right
            return server.resident_bytes

    async with _bystander(opened, server):
        for what, (frame, answered_bytes) in floods.items():
            before = await flood(
                frame, answered_bytes, 6
            )  # what the server loads and keeps for its first flood
            # It grows by less than 1 MB. Answers that piled up would be 48 MB, and what holds them
            # as much again.
            assert await flood(frame, answered_bytes, 48) - before < 8 * _MEGABYTE, what
