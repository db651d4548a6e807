"""HTTP answers with server-sent events, read after the clock has stopped. Bytes come with the
moment of their arrival; everything here is a function of them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

BLANK_LINE = re.compile(rb"\r?\n\r?\n")

Piece = tuple[float, bytes]
"""When it came (`time.monotonic` seconds), and what."""


class ProtocolError(Exception):
    """The server said something that is not an answer. The message has its beginning."""


@dataclass(frozen=True)
class Event:
    """A server-sent event that came whole."""

    arrived: float
    data: bytes
    name: str = "message"
    id: str | None = None


def http_body(pieces: Sequence[Piece]) -> list[Piece]:
    """The body's bytes of one HTTP response, chunked or not.

    Raises:
        ProtocolError: the status is not 200.
    """
    raw = b"".join(data for _, data in pieces)
    head, separator, _ = raw.partition(b"\r\n\r\n")
    if not separator:
        return []
    if head.split(b" ", 2)[1] != b"200":
        raise ProtocolError(raw[:300].decode(errors="replace"))
    begin = len(head) + len(separator)
    if b"transfer-encoding: chunked" in head.lower():
        return list(_chunks(raw, begin, pieces))
    return list(_from(begin, pieces))


def _from(begin: int, pieces: Sequence[Piece]) -> Iterator[Piece]:
    at = 0
    for arrived, data in pieces:
        if at + len(data) > begin:
            yield arrived, data[max(0, begin - at) :]
        at += len(data)


def _chunks(raw: bytes, at: int, pieces: Sequence[Piece]) -> Iterator[Piece]:
    """A chunk has come when its last byte has; what came of an unfinished one counts, too."""
    received = iter(pieces)
    arrived, data = next(received)
    until = len(data)
    while (line := raw.find(b"\r\n", at)) >= 0:
        begin = line + 2
        end = min(begin + int(raw[at:line].partition(b";")[0], 16), len(raw))
        if end == begin:
            return
        while until < end:
            arrived, data = next(received)
            until += len(data)
        yield arrived, raw[begin:end]
        at = end + 2


def events(body: Iterable[Piece]) -> Iterator[Event]:
    """The events that came whole; what is behind the last blank line is dropped, as browsers do."""
    rest = b""
    for arrived, data in body:
        *blocks, rest = BLANK_LINE.split(rest + data)
        for block in blocks:
            if event := _event(arrived, block):
                yield event


def _event(arrived: float, block: bytes) -> Event | None:
    lines: dict[bytes, list[bytes]] = {}
    for line in block.splitlines():
        field, _, value = line.partition(b":")
        lines.setdefault(field, []).append(value.removeprefix(b" "))
    if b"data" not in lines and b"id" not in lines:
        return None  # a comment, or nothing
    return Event(
        arrived,
        b"\n".join(lines.get(b"data", [])),
        lines.get(b"event", [b"message"])[-1].decode(),
        lines[b"id"][-1].decode() if b"id" in lines else None,
    )
