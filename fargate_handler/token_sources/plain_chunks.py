"""Reads a body in chunks of HTTP/1.1, without aiohttp's parser."""

from __future__ import annotations

import re

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

    __slots__ = ("_left", "is_plain", "received")

    def __init__(self) -> None:
        self.received = b""
        """The received bytes that were not read."""
        self.is_plain = True
        """Whether the next chunk is plain, as far as it was received."""
        self._left = 0  # bytes of the current chunk's data that were not read

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self.received = self.received + data if self.received else data

    def read(self, most: int) -> bytes:
        """Read at most `most` bytes of the body. Empty: more must come, or it is not plain."""
        received = self.received
        if not self._left and len(received) <= most:
            size = _SIZE.match(received)
            if size is not None:
                begin, length = size.end(), int(size[1], 16)
                if length and begin + length + 2 == len(received) and received.endswith(b"\r\n"):
                    self.received = b""
                    return received[begin:-2]  # nearly every read is like this
        return self._read_pieces(most)

    def _read_pieces(self, most: int) -> bytes:
        received, left, at = self.received, self._left, 0
        pieces: list[bytes] = []
        while most:
            if not left:
                size = _SIZE.match(received, at)
                left = 0 if size is None else int(size[1], 16)
                if size is None or not left:
                    self.is_plain = _SIZE_BEGINNING.fullmatch(received, at) is not None
                    break
                at = size.end()
            end = at + left
            if len(received) < end + 2:
                # The last byte is read with the line end, so that `rest` is always a valid chunk.
                end = min(end - 1, len(received))
            elif received[end : end + 2] != b"\r\n":
                self.is_plain = False
                break
            piece = received[at : min(end, at + most)]
            if not piece:
                break
            pieces.append(piece)
            most -= len(piece)
            left -= len(piece)
            at += len(piece)
            if not left:
                at += 2
        self.received, self._left = received[at:], left
        return b"".join(pieces)

    def rest(self) -> bytes:
        """What was not read, in chunks."""
        return b"%x\r\n%b" % (self._left, self.received) if self._left else self.received
