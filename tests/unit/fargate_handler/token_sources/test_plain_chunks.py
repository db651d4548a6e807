from __future__ import annotations

import re

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.plain_chunks import PlainChunks, has_chunks

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%b\r\n"
_MANY = 10_000


def _wire(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def _body(wire: bytes) -> bytes:
    """The body in whole chunks."""
    body = b""
    while wire:
        size, _, wire = wire.partition(b"\r\n")
        length = int(size, 16)
        assert wire[length : length + 2] == b"\r\n"
        body, wire = body + wire[:length], wire[length + 2 :]
    return body


def test_one_token() -> None:
    chunks = PlainChunks()
    for size in (b"3", b"003", b"0000003"):
        chunks.feed(size + b"\r\nabc\r\n")
        assert chunks.read(_MANY) == b"abc"
    assert chunks.is_plain
    assert chunks.rest() == b""


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    st.lists(st.integers(0, 200)),
    st.integers(1, 50),
    st.integers(0, 20),
)
def test_wherever_it_is_cut_and_wherever_the_parser_goes_on(
    pieces: list[bytes], cuts: list[int], most: int, last_read: int
) -> None:
    wire, chunks, body = _wire(pieces), PlainChunks(), b""
    places = sorted(cut for cut in cuts if cut < len(wire))
    reads = 0
    fed = 0
    for begin, end in zip([0, *places], [*places, len(wire)], strict=True):
        chunks.feed(wire[begin:end])
        fed = end
        while reads < last_read and (piece := chunks.read(most)):
            assert len(piece) <= most
            body += piece
            reads += 1
        if reads == last_read:
            break
    assert chunks.is_plain
    while (rest := chunks.rest()) is None:
        chunks.feed(wire[fed : fed + 1])
        fed += 1
    assert body + _body(rest + wire[fed:]) == b"".join(pieces)


@pytest.mark.parametrize(
    "other",
    [
        b"0\r\n\r\n",
        b"0\r\n",
        b"0\r\nTrailer: x\r\n\r\n",
        b"3;name=x\r\nabc\r\n",
        b"3 \r\nabc\r\n",
        b"+3\r\nabc\r\n",
        b"0x3\r\nabc\r\n",
        b"0_3\r\nabc\r\n",
        b"3\nabc\n",
        b"\r\n",
        b"more\r\n",
        b"123456789\r\n",
        b"-",
    ],
)
def test_what_is_not_plain_is_left_to_the_parser(other: bytes) -> None:
    for before in (b"", b"2\r\nab\r\n"):
        chunks = PlainChunks()
        chunks.feed(before + other)
        assert chunks.read(_MANY) == before[3:-2]
        assert chunks.read(_MANY) == b""
        assert not chunks.is_plain
        assert chunks.rest() == other


def test_data_is_read_before_the_end_of_its_chunk_has_come() -> None:
    chunks = PlainChunks()
    chunks.feed(b"3\r\nabc")
    assert chunks.read(_MANY) == b"abc"
    assert chunks.rest() is None
    chunks.feed(b"\r")
    assert chunks.read(_MANY) == b""
    assert chunks.rest() is None
    chunks.feed(b"\n1\r\nd\r\n")
    assert chunks.rest() == b"1\r\nd\r\n"
    assert chunks.read(_MANY) == b"d"


def test_data_behind_the_size_of_a_chunk_that_was_read_is_an_error() -> None:
    chunks = PlainChunks()
    chunks.feed(b"3\r\nabc")
    assert chunks.read(_MANY) == b"abc"
    chunks.feed(b"d\r\n")
    with pytest.raises(aiohttp.ClientPayloadError):
        chunks.read(_MANY)
    assert chunks.rest() is None


@pytest.mark.parametrize("broken", [b"4\r\ntoo much\r\n", b"4\r\nabcd\n\n"])
def test_a_chunk_of_another_length_is_left_to_the_parser(broken: bytes) -> None:
    chunks = PlainChunks()
    chunks.feed(broken)
    assert chunks.read(_MANY) == b""
    assert not chunks.is_plain
    assert chunks.rest() == broken


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"Transfer-Encoding: chunked\r\n", True),
        (b"transfer-encoding:CHUNKED \r\nX: y\r\n", True),
        (b"", False),
        (b"Content-Length: 3\r\n", False),
        (b"Transfer-Encoding: gzip, chunked\r\n", False),
        (b"Transfer-Encoding: chunked\r\n ,gzip\r\n", False),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", False),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", False),
        (b"Content-Length : 3\r\nTransfer-Encoding: chunked\r\n", False),
        (b"X-Transfer-Encoding: chunked\r\n", False),
    ],
)
def test_heads(line: bytes, *, expected: bool) -> None:
    assert has_chunks(_HEAD % line) is expected
    assert not has_chunks((_HEAD % line).replace(b"200", b"500"))
    assert not has_chunks((_HEAD % line).replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert not has_chunks(re.sub(rb"\r\n", b"\n", _HEAD % line))
