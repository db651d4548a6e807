"""The port of encoders: a response's log and a reader's place in it become bytes of one protocol.

What every encoder must guarantee (`tests/unit/stream_core/encoding/test_encoder_contract.py`):

- Each entry is given once and in order, wherever the log is cut into calls of `take`.
- The response's end is given once, after everything else.
- After a restart the reader has the current text, or is asked to drop what it has.
- `cursor.after` and `epoch` are enough to go on, in the same copy of the response or in another.
- Its bytes depend on the response and on what it was made with, never on when `take` is called.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from evenflow.stream_core.base.errors import EvenflowError, InvalidRequest
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.http.http_contract import EVENT_ID_PATTERN
from evenflow.stream_core.log.response_log import Cursor, ResumePoint

LAST_EVENT_ID = "Last-Event-ID"
_EVENT_ID = re.compile(EVENT_ID_PATTERN, re.ASCII)


class LogEncoder(Protocol):
    """Encodes for one reader the entries that it has not received. It never waits.

    It reads the log itself. A WebSocket's `EntryEncoder` (`delivery/delta_encoder.py`) is given
    each entry.
    """

    @property
    def opening(self) -> bytes:
        """What is sent before everything else, together with it."""

    @property
    def ended(self) -> bool:
        """Whether the reader was given the response's end."""

    @property
    def cursor(self) -> Cursor:
        """The reader's place in the log. After `go_on` it is another one."""

    @property
    def epoch(self) -> int:
        """The newest epoch of the response that the reader knows."""

    def take(self) -> bytes:
        """What is new, up to about the size of a frame. Empty when there is nothing.

        Raises:
            EvenflowError: this reader can't be given the rest. `failure` encodes the error.
        """

    def go_on(self, stream: ResponseStream, point: ResumePoint) -> None:
        """Read another copy of the response from `point` on."""

    def queued(self, place: QueuePlace) -> bytes:
        """Encode where the response waits for its model. Nothing of the log was taken yet."""

    def failure(self, error: EvenflowError) -> bytes:
        """Encode an error that ends the stream. Empty: the reader receives it on its return."""


def queued_comment(place: QueuePlace) -> bytes:
    """A comment of server-sent events, for protocols that have no word for a queue."""
    expected = "" if place.expected_seconds is None else f", about {place.expected_seconds:g} s"
    return b": queued at %d%b\n" % (place.position, expected.encode())


class EventId(NamedTuple):
    """The id of a server-sent event. A reader that has it has everything up to `last_index`.

    `epoch` is None where the reader doesn't say. `end`: whether it has the response's end too.
    """

    last_index: int
    epoch: int | None
    end: bool = False

    def __str__(self) -> str:
        return event_id(self.last_index, self.epoch or 1, end=self.end)

    @classmethod
    def parse(cls, text: str, *, ends: bool = True) -> EventId:
        """Read the id that a client sends as `Last-Event-ID`.

        Args:
            ends: whether the id of an end is allowed.

        Raises:
            InvalidRequest: the text is not an id.
        """
        found = _EVENT_ID.fullmatch(text)
        if found is None or (found[3] and not ends):
            raise InvalidRequest(
                f"{LAST_EVENT_ID} must be the id of one of this response's events, not "
                f"{text[:32]!r}; nothing was generated",
                code="invalid_field",
                param=LAST_EVENT_ID,
            )
        return cls(int(found[1]), max(1, int(found[2] or 1)), found[3] is not None)


def rest_of_id(epoch: int) -> bytes:
    """What follows the index in the ids of events of an epoch. Nothing in the first one."""
    return event_id(0, epoch)[1:].encode()


def event_id(index: int, epoch: int, *, end: bool = False) -> str:
    """`12` in the first epoch, `12.3` in the third, `12.end` with the response's end."""
    return f"{index}{'' if epoch == 1 else f'.{epoch}'}{'.end' if end else ''}"
