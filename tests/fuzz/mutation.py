"""Bytes that were right, changed at random. The same generator makes the same changes."""

from __future__ import annotations

import random
from collections.abc import Callable

_LONGEST = 200_000
_WORDS = (
    b"\x00", b"\xff", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b":", b",", b";", b" ", b"\t", b"{",
    b"[", b'"', b"\\u0000", b"\\ud800", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80",
    b"-1", b"0", b"1e999", b"9" * 30, b"null", b"data: ", b"data: [DONE]\n\n", b"chunked", b"gzip",
    b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Upgrade: websocket\r\n",
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"0\r\n\r\n",
    b"fffffffffffffffff\r\n",
)  # fmt: skip


def mutated(data: bytes, chance: random.Random, most: int = 4) -> bytes:
    """`data` with 0 to `most` changes, each in any place."""
    changed = bytearray(data)
    for _ in range(chance.randint(0, most)):
        chance.choice(_CHANGES)(changed, chance)
    return bytes(changed[:_LONGEST])


def pieces(data: bytes, chance: random.Random) -> tuple[bytes, ...]:
    """`data`, cut into one to five parts."""
    cuts = sorted(chance.randint(0, len(data)) for _ in range(chance.choice((0, 0, 1, 4))))
    return tuple(data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True))


def _part(data: bytearray, chance: random.Random) -> slice:
    start = chance.randint(0, len(data))
    return slice(start, start + chance.choice((1, 1, 2, 8, 64, 1_024)))


def _flip(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _insert_word(data: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(data))
    data[at:at] = chance.choice(_WORDS)


def _insert_noise(data: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(data))
    data[at:at] = chance.randbytes(chance.choice((1, 3, 50)))


def _leave_out(data: bytearray, chance: random.Random) -> None:
    del data[_part(data, chance)]


def _repeat(data: bytearray, chance: random.Random) -> None:
    part = _part(data, chance)
    data[part.start : part.start] = data[part] * chance.choice((1, 2, 30, 1_000))


def _cut_off(data: bytearray, chance: random.Random) -> None:
    del data[chance.randint(0, len(data)) :]


def _replace_word(data: bytearray, chance: random.Random) -> None:
    data[_part(data, chance)] = chance.choice(_WORDS)


_CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip, _insert_word, _insert_noise, _leave_out, _repeat, _cut_off, _replace_word,
)  # fmt: skip
