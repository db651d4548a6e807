"""Sends inputs over sockets, and looks at what comes back."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from contextlib import suppress

from tests.fuzz.inputs import RESPONSES, Input
from tests.integration.chat_client import checked_error
from tests.integration.raw_websocket import CLOSE, CONTINUATION, PING, PONG, TEXT

# When nothing came for so long after the first bytes, the server waits for more.
_SILENCE_SECONDS = 0.05
# Half a request gets no answer soon.
_FIRST_SECONDS = 0.3
_MOST_SECONDS = 2.0
HANDSHAKE_SECONDS = 10.0
"""A handshake is always answered."""

_MOST_BYTES = 1_000_000

# RFC 6455, 7.4: those that an endpoint may send.
_LEGAL_CODES = {*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)}
_CONTROLS = (CLOSE, PING, PONG)


async def exchange(
    port: int, address: str, pieces: tuple[bytes, ...], first_seconds: float = _FIRST_SECONDS
) -> bytes:
    """Send an input from an address of the loopback. Returns what was answered.

    Args:
        first_seconds: how long to wait for the first bytes.
    """
    # Not asyncio's streams: after a reset they forget what came before it.
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.bind((address, 0))
        await loop.sock_connect(sock, ("127.0.0.1", port))
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_MOST_SECONDS):
                for piece in pieces:
                    await loop.sock_sendall(sock, piece)
                    await asyncio.sleep(0)
        answer = b""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(first_seconds + _MOST_SECONDS):
                while len(answer) < _MOST_BYTES:
                    patience = _SILENCE_SECONDS if answer else first_seconds
                    part = await asyncio.wait_for(loop.sock_recv(sock, 65_536), patience)
                    if not part:
                        break
                    answer += part
    return answer


def handshake(given: Input, token: bytes) -> bytes:
    """What opens a WebSocket for an input's frames."""
    path = b"/realtime" if "realtime" in given.protocol else b"/ws"
    asked = b"Sec-WebSocket-Protocol: %b, bearer.%b" % (given.protocol.encode(), token)
    if given.protocol == RESPONSES:
        path, asked = b"/v1/responses", b"Authorization: Bearer %b" % token
    return (
        b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        b"%b\r\n\r\n" % (path, asked)
    )


def check_frames(answer: bytes) -> None:
    """Check that the server sent nothing but frames that are allowed.

    Raises:
        AssertionError: it did.
    """
    check_answer(answer)
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), f"the handshake was refused: {answer[:500]!r}"
    while len(rest) >= 2:
        first, length, start = rest[0], rest[1], 2
        opcode = first & 0x0F
        assert not first & 0x70, f"reserved bits: {rest[:20]!r}"
        assert length < 128, f"a masked frame: {rest[:20]!r}"
        assert opcode in (CONTINUATION, TEXT, *_CONTROLS), f"an unknown frame: {rest[:20]!r}"
        assert opcode not in _CONTROLS or length < 126, f"a long control frame: {rest[:20]!r}"
        if length == 126:
            (length,), start = struct.unpack(">H", rest[2:4].rjust(2, b"\0")), 4
        elif length == 127:
            (length,), start = struct.unpack(">Q", rest[2:10].rjust(8, b"\0")), 10
        payload, rest = rest[start : start + length], rest[start + length :]
        if opcode == CLOSE and payload:
            code = int.from_bytes(payload[:2], "big")
            assert code in _LEGAL_CODES, f"closed with {code}"


def check_answer(answer: bytes) -> None:
    """Check that the server found no error of its own.

    Raises:
        AssertionError: it did.
    """
    assert b'"code":"internal_error"' not in answer, answer[:500]


def check_protocol(given: Input, answer: bytes) -> None:
    """Check the answer to a whole request: errors have the shape that its protocol's clients know.

    Raises:
        AssertionError: they don't, or the server found an error of its own.
    """
    check_answer(answer)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head:
        return  # whatever it waits for had not come yet
    status = int(head.split(b" ", 2)[1])
    assert status != 500, answer[:500]
    method, path, _ = b"".join(given.pieces).split(b" ", 2)
    if status < 400 or method == b"HEAD":
        return
    error = json.loads(body)
    checked_error(error)
    if path.startswith(b"/v1/messages"):
        assert error["type"] == "error", answer[:500]
    else:
        assert error.keys() == {"error"}, answer[:500]
