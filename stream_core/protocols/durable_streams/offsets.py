"""The positions of Durable Streams in a response: offsets, and the cursors of live reads.

An offset is `<epoch>_<next index>`, and behind the response's end `<epoch>_<next index>_end`, with
numbers of fixed length: offsets sort as texts in the order in which a reader gets them. The
epoch is the newest that the reader has received. It comes first. A reader with entries that were
lost with their owner begins again at index 0, under a later epoch.
"""

from __future__ import annotations

import re

from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.encoding.port import EventId
from evenflow.stream_core.log.response_log import NOTHING_YET

BEGINNING = "-1"
NOW = "now"
"""The offset of the response's current end."""
OFFSET_PATTERN = r"^([0-9]{9})_([0-9]{15})(_end)?$"
_OFFSET = re.compile(OFFSET_PATTERN, re.ASCII)

CURSOR_SECONDS = 20
CURSORS_AHEAD = 180
"""The largest distance to a client's own cursor: an hour."""
_CURSORS_BEGIN = 1_728_432_000  # 9 October 2024, from the protocol
_CURSOR = re.compile(r"[0-9]{1,15}", re.ASCII)


def offset_of(has: EventId) -> str:
    """The offset of a reader that has everything up to `has`."""
    offset = offsets_of(has.epoch or 1) % (has.last_index + 1)
    return f"{offset.decode()}{'_end' if has.end else ''}"


def offsets_of(epoch: int) -> bytes:
    """The offsets under an epoch, with a place for the next index."""
    return b"%09d_%%015d" % epoch


def read_offset(text: str) -> EventId:
    """The position of a reader that continues at this offset.

    Raises:
        InvalidRequest: it is neither an offset nor the beginning.
    """
    if text == BEGINNING:
        return EventId(NOTHING_YET, None)
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            f"offset must be {BEGINNING}, {NOW}, or a Stream-Next-Offset of this stream, not "
            f"{text[:32]!r}",
            code="invalid_field",
            param="offset",
        )
    return EventId(int(match[2]) - 1, max(1, int(match[1])), match[3] is not None)


def live_cursor(now: float, client_cursor: str | None, ahead: int) -> str:
    """The cursor of a live read: a number that grows with time, and with each read.

    Clients send it with their next read, so that a cache never returns the same answer again.

    Args:
        now: seconds since the epoch.
        client_cursor: the client's cursor. An invalid one is ignored.
        ahead: the distance to `client_cursor` if the time is not later, from 1 to `CURSORS_AHEAD`.
    """
    interval = max(0, int(now - _CURSORS_BEGIN)) // CURSOR_SECONDS
    if (
        client_cursor is None
        or _CURSOR.fullmatch(client_cursor) is None
        or int(client_cursor) < interval
    ):
        return str(interval)
    return str(int(client_cursor) + ahead)
