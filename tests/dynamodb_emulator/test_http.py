"""The wire: HTTP/1.1 as clients speak it, in whatever pieces it comes."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.dynamodb_emulator.process import DynamoDBEmulator


def request_with(body: bytes) -> bytes:
    """A request for the list of tables."""
    return (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n"
        b"Content-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )


REQUEST = request_with(b'{"Limit": 10}')


@asynccontextmanager
async def connected(emulator: DynamoDBEmulator) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection; nothing takes longer than 10 s."""
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", emulator.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            await writer.wait_closed()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """The next answer: its status, its headers, its body."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, await reader.readexactly(int(headers["Content-Length"]))


async def test_an_answer(emulator: DynamoDBEmulator) -> None:
    async with connected(emulator) as (reader, writer):
        writer.write(REQUEST)
        status, headers, body = await answer(reader)
    assert status == 200
    assert headers["Content-Type"] == "application/x-amz-json-1.0"
    assert int(headers["x-amz-crc32"]) == zlib.crc32(body)
    assert "TableNames" in json.loads(body)


async def test_a_request_may_come_byte_by_byte(emulator: DynamoDBEmulator) -> None:
    async with connected(emulator) as (reader, writer):
        for byte in REQUEST:
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await answer(reader))[0] == 200


async def test_several_requests_at_once_are_answered_in_turn(emulator: DynamoDBEmulator) -> None:
    unknown = REQUEST.replace(b"ListTables", b"ListThings")
    for delay_ms in (0, 5):
        emulator.set_faults(delay_ms=delay_ms)
        async with connected(emulator) as (reader, writer):
            writer.write(REQUEST + unknown + REQUEST + REQUEST[:50])
            assert [(await answer(reader))[0] for _ in range(3)] == [200, 400, 200]
            writer.write(REQUEST[50:])
            assert (await answer(reader))[0] == 200


async def test_headers_in_any_case(emulator: DynamoDBEmulator) -> None:
    head, body = REQUEST.split(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    lines = [name.upper() + b":" + value for name, _, value in (line.partition(b":") for line in lines)]
    async with connected(emulator) as (reader, writer):
        writer.write(b"\r\n".join([first, *lines]) + b"\r\n\r\n" + body)
        assert (await answer(reader))[0] == 200


async def test_who_wants_the_connection_closed_gets_that(emulator: DynamoDBEmulator) -> None:
    async with connected(emulator) as (reader, writer):
        writer.write(REQUEST.replace(b"Host: localhost", b"Connection: close"))
        status, headers, _ = await answer(reader)
        assert (status, headers["Connection"]) == (200, "close")
        assert await reader.read() == b""


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"x" * 70_000, 400),
        (REQUEST.replace(b"Length: 13", b"Length: many"), 400),
        (REQUEST.replace(b"Content-Length: 13", b"Transfer-Encoding: chunked"), 411),
        (REQUEST.replace(b"Length: 13", b"Length: 16777217"), 413),
    ],
    ids=["no HTTP", "no end", "no length", "chunked", "over 16 MB"],
)
async def test_what_is_no_request_ends_the_connection(emulator: DynamoDBEmulator, request_: bytes, status: int) -> None:
    async with connected(emulator) as (reader, writer):
        writer.write(request_)
        assert (await answer(reader))[0] == status
        assert await reader.read() == b""


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        (REQUEST.replace(b"POST /", b"POST /other"), 404, b"{}"),
        (REQUEST.replace(b"POST /", b"GET /"), 404, b"{}"),
        (REQUEST.replace(b"DynamoDB_20120810", b"DynamoDBStreams_20120810"), 400, b"UnknownOperationException"),
        (request_with(b'{"Limit": 10,'), 400, b"SerializationException"),
        (request_with(b"["), 400, b"SerializationException"),
        (request_with(b'"\xff\xfe"'), 400, b"SerializationException"),
        (request_with(b"null"), 400, b"SerializationException"),
    ],
)
async def test_what_is_refused_leaves_the_connection_open(
    emulator: DynamoDBEmulator, request_: bytes, status: int, words: bytes
) -> None:
    async with connected(emulator) as (reader, writer):
        writer.write(request_)
        found, _, body = await answer(reader)
        assert found == status
        assert words in body
        writer.write(REQUEST)
        assert (await answer(reader))[0] == 200
