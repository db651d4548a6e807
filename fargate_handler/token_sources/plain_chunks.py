"""Reads a body in chunks of HTTP/1.1, without aiohttp's parser."""

from __future__ import annotations

import re

import aiohttp

_LINE_END = b"\r\n"
_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")
_SIZE_BEGINNING = re.compile(rb"[0-9a-fA-F]{0,8}\r?")
_PLAIN_HEAD = re.compile(
    rb"HTTP/1\.1 200\b.*\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n(?![ \t])",
    re.IGNORECASE | re.DOTALL,
)
_FRAMING = re.compile(rb"\ntransfer-encoding[ \t]*:|\ncontent-length[ \t]*:", re.IGNORECASE)


def has_chunks(head: bytes | bytearray) -> bool:
    """Whether the body behind this head has the status 200, and chunks alone frame it."""
    return _PLAIN_HEAD.match(head) is not None and len(_FRAMING.findall(head)) == 1


class PlainChunks:
    """Takes a body out of its chunks (RFC 9112, 7.1), as long as these have only size and data.

    All else is left to aiohttp's parser, which receives `rest`: the last chunk, extensions, and
    what is broken. For a chunk with one token that parser and its buffer take ten calls.
    """

    __slots__ = ("_awaits_end", "_left", "is_plain", "received")

    def __init__(self) -> None:
        self.received = b""
        """The received bytes that were not read."""
        self.is_plain = True
        """Whether the next chunk is plain, as far as it was received."""
        self._left = 0  # bytes of the current chunk's data that were not read
        self._awaits_end = False  # whether the line end behind that data is not read

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self.received = self.received + data if self.received else data

    def read(self, most: int) -> bytes:
        """Read at most `most` bytes of the body. Empty: more must come, or it is not plain.

        Raises:
            aiohttp.ClientPayloadError: a chunk is longer than its size.
        """
        received = self.received
        if not (self._left or self._awaits_end) and len(received) <= most:
            size = _SIZE.match(received)
            if size is not None:
                begin, length = size.end(), int(size[1], 16)
                if length and begin + length + 2 == len(received) and received.endswith(_LINE_END):
                    self.received = b""
                    return received[begin:-2]  # nearly every read is like this
        return self._read_pieces(most)

    def _read_pieces(self, most: int) -> bytes:
        pieces: list[bytes] = []
        at = 0
        while most:
            at = self._next_data(at)
            piece = self.received[at : at + min(self._left, most)]
            if not piece or not self.is_plain:
                break
            pieces.append(piece)
            most -= len(piece)
            at += len(piece)
            self._left -= len(piece)
            self._awaits_end = not self._left
        self.received = self.received[at:]
        return b"".join(pieces)

    def _next_data(self, at: int) -> int:
        """Where the next data begins, read from `at` on. Without any received, `_left` is 0."""
        received = self.received
        if self._awaits_end:
            end = received[at : at + 2]
            if not _LINE_END.startswith(end):
                raise aiohttp.ClientPayloadError("a chunk is longer than its size")
            if end != _LINE_END:
                return at
            self._awaits_end = False
            at += 2
        if not self._left:
            size = _SIZE.match(received, at)
            self._left = 0 if size is None else int(size[1], 16)
            if size is None or not self._left:
                self.is_plain = _SIZE_BEGINNING.fullmatch(received, at) is not None
                return at
            at = size.end()
            end = received[at + self._left : at + self._left + 2]
            self.is_plain = _LINE_END.startswith(end)
        return at

    def rest(self) -> bytes | None:
        """What was not read, in chunks. None: first the end of a chunk must come."""
        if self._left:
            return b"%x\r\n%b" % (self._left, self.received)
        if not self._awaits_end:
            return self.received
        return self.received[2:] if self.received.startswith(_LINE_END) else None
