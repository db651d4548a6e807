"""Where a client's stream broke off: the header `Last-Event-ID`."""

from __future__ import annotations

import re
from typing import NamedTuple

from stream_core.errors import InvalidRequest
from stream_core.http_contract import CHUNK_ID_PATTERN
from stream_core.response_log import ResponseLog

LAST_EVENT_ID = "Last-Event-ID"
_EVENT_ID = re.compile(CHUNK_ID_PATTERN, re.ASCII)


class LastEvent(NamedTuple):
    """The last index that a client has, and the epoch in which it was given it."""

    last_index: int
    epoch: int


NOTHING = LastEvent(-1, 1)


def event_id(log: ResponseLog, index: int) -> str:
    """The id of a chunk after which the client has everything up to `index`."""
    epoch = log.epoch_at(index)
    return f"{index}" if epoch == 1 else f"{index}.{epoch}"


def last_event(header: str | None, *, has_key: bool) -> LastEvent:
    """What the header says; without one, that the client has nothing.

    Raises:
        InvalidRequest: it is no id of a chunk, or there is no key that says of which response.
    """
    if not header:
        return NOTHING
    found = _EVENT_ID.fullmatch(header)
    if found is None:
        raise _wrong(f"{LAST_EVENT_ID} must be the id of one of the response's chunks, not {header[:32]!r}")
    if not has_key:
        raise _wrong(f"{LAST_EVENT_ID} needs the Idempotency-Key of the response that broke off")
    return LastEvent(int(found[1]), max(1, int(found[2] or 1)))


def _wrong(what: str) -> InvalidRequest:
    return InvalidRequest(f"{what}; nothing was generated", code="invalid_field", param=LAST_EVENT_ID)
