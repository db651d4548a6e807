"""Reads the content of a request's body."""

from __future__ import annotations

from collections.abc import Callable, Collection

from aiohttp import web

from stream_core.protocol.content_encoding import ContentDecoder
from stream_core.protocol.http_contract import body_too_large


async def read_content(
    request: web.Request,
    most: int,
    encodings: Collection[str] = (),
    grow_to: Callable[[int], None] = lambda _size: None,
) -> bytearray:
    """Read the whole content. It is not kept with the request, which lives as long as its answer.

    Args:
        most: how many bytes it may have.
        encodings: those in which it may come. Only who is known may have something unpacked.
        grow_to: told how many bytes it has before they are kept. It may refuse them.

    Raises:
        UnsupportedMediaType: it comes in another encoding.
        TooLarge: it is larger than allowed.
        InvalidRequest: it can't be decoded.
    """
    decoder = ContentDecoder(request.headers.get("Content-Encoding"), encodings, most)
    if (request.content_length or 0) > most:
        raise body_too_large()
    content = bytearray()
    while received := await request.content.readany():
        for piece in decoder.feed(received):
            grow_to(len(content) + len(piece))
            content.extend(piece)
    decoder.end()
    return content
