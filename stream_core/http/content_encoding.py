"""The content of request bodies, which may come compressed: unpacked in pieces, within bounds."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator

from evenflow.stream_core.base.errors import InvalidRequest, TooLarge, UnsupportedMediaType
from evenflow.stream_core.http.http_contract import body_too_large

GZIP = "gzip"
IDENTITY = "identity"

MOST_TIMES = 100
"""The highest ratio of content to sent bytes. Text of chats has a ratio of 3 to 30."""
FREE_BYTES = 65_536
"""Bytes of content that need no ratio: a few words, many times over."""

_PIECE_BYTES = 65_536
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class ContentDecoder:
    """Decodes a body piece by piece. Never has more of the content than one piece.

    Args:
        encoding: the header `Content-Encoding`. None if it is missing.
        accepted: the encodings that are taken, besides none.
        max_bytes: the most bytes of the content.

    Raises:
        UnsupportedMediaType: the encoding is not taken.
    """

    def __init__(self, encoding: str | None, accepted: Collection[str], max_bytes: int) -> None:
        name = (encoding or IDENTITY).strip().lower()
        if name != IDENTITY and name not in accepted:
            accepted_names = ", ".join(accepted) or IDENTITY
            raise UnsupportedMediaType(
                f"a body with Content-Encoding {name[:32]!r} is not taken here, only "
                f"{accepted_names} is; nothing was accepted, send it as it is",
                code="unsupported_encoding",
                param="Content-Encoding",
                expected=accepted_names,
            )
        self._inflating = None if name == IDENTITY else zlib.decompressobj(_GZIP_WINDOW)
        self._max_bytes = max_bytes
        self._received = 0
        self._decoded_bytes = 0

    def feed(self, received: bytes) -> Iterator[bytes]:
        """The content of the next bytes, in pieces. Each is decoded when it is requested.

        Raises:
            TooLarge: the content is larger than allowed, or than its ratio allows.
            InvalidRequest: the bytes can't be decoded.
        """
        self._received += len(received)
        if self._inflating is None:
            yield self._counted(received)
            return
        while True:
            try:
                piece = self._inflating.decompress(received, _PIECE_BYTES)
            except zlib.error:
                raise _undecodable() from None
            if self._inflating.unused_data:
                raise _undecodable()  # something follows its end
            yield self._counted(piece)
            if len(piece) < _PIECE_BYTES:
                return
            received = self._inflating.unconsumed_tail

    def end(self) -> None:
        """The body has ended.

        Raises:
            InvalidRequest: its content has not.
        """
        if self._inflating is not None and not self._inflating.eof:
            raise _undecodable()

    def _counted(self, piece: bytes) -> bytes:
        self._decoded_bytes += len(piece)
        if self._decoded_bytes > self._max_bytes:
            raise body_too_large()
        if self._decoded_bytes > max(FREE_BYTES, MOST_TIMES * self._received):
            raise TooLarge(
                f"the body's content is more than {MOST_TIMES} times as large as what was sent; "
                "nothing was accepted, send it without Content-Encoding",
                code="message_too_large",
            )
        return piece


def _undecodable() -> InvalidRequest:
    return InvalidRequest(
        "the body is not what its Content-Encoding says; nothing was accepted",
        code="bad_request",
        param="Content-Encoding",
    )
