from __future__ import annotations

import random

from picows.picows import _parse_http_request  # type: ignore[attr-defined]

from evenflow.fargate_handler.gateway.connections.handshake import head_fault

_HEAD = (
    b"GET /ws?replace=1 HTTP/1.1\r\nHost: chat.example:8080\r\nConnection: keep-alive, Upgrade\r\n"
    b"Upgrade: websocket\r\nOrigin: http://chat.example\r\nContent-Length: 0\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
    b"Sec-WebSocket-Protocol: evenflow.v1, bearer.x"
)
_PIECES = (
    b"\r\n", b"\r", b"\n", b":", b" ", b"\t", b"\x00", b"\x7f", b"\xff", b"0", b"1", b",",
    b"HTTP/1.0", b"POST", b"", b"\r\nTransfer-Encoding: chunked", b"\r\ntransfer-encoding : x",
    b"\r\nContent-Length: 0", b"\r\ncontent-length: 7", b"\r\n folded", b"\r\nX: y" * 130,
)  # fmt: skip


def _mutated(chance: random.Random) -> bytes:
    head = _HEAD
    for _ in range(chance.randint(1, 3)):
        start = chance.randrange(len(head) + 1)
        end = min(len(head), start + chance.choice((0, 0, 1, 2, 10)))
        head = head[:start] + chance.choice(_PIECES) + head[end:]
    return head


def test_picows_refuses_nothing_that_is_let_through_to_it() -> None:
    """It would say so in words of its own."""
    assert head_fault(_HEAD) is None
    chance = random.Random(7)
    let_through = 0
    for _ in range(20_000):
        # What ends a head is never inside of one.
        head = _mutated(chance).partition(b"\r\n\r\n")[0]
        if head_fault(head) is None:
            let_through += 1
            _parse_http_request(head)
    assert 1_000 < let_through < 19_000, "the heads are all of one kind, which shows nothing"
