"""The port of encoders: a response's log and a reader's place in it go in, bytes of one protocol come out.

What an encoder owes its reader (`tests/unit/stream_core/encoders/test_encoder_contract.py` holds each to it):

- Each entry is given once and in order, wherever the log was cut when it was asked.
- The response's end is given once, behind everything else.
- What stands after a restart is what the reader has, or it is told that what it has is no good.
- `after` and `epoch` are enough to go on, in the same copy of the response or in another.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from stream_core.log.response_log import ResumePoint
from stream_core.log.response_stream import ResponseStream
from stream_core.protocol.errors import EvenflowError, InvalidRequest
from stream_core.protocol.http_contract import EVENT_ID_PATTERN

LAST_EVENT_ID = "Last-Event-ID"
_EVENT_ID = re.compile(EVENT_ID_PATTERN, re.ASCII)


class LogEncoder(Protocol):
    """What one reader has not been given of a response, as bytes. It never waits."""

    @property
    def opening(self) -> bytes:
        """What goes out before everything else, as soon as anything does."""

    @property
    def ended(self) -> bool:
        """Whether the end of the response was given: nothing follows."""

    @property
    def after(self) -> int:
        """The last index that the reader has; -1 before the first."""

    @property
    def epoch(self) -> int:
        """The newest of the response's owners that the reader knows of."""

    def take(self) -> bytes:
        """What is new, up to about the size of a frame; empty when there is nothing.

        Raises:
            EvenflowError: what comes next can't be told to this reader; `failure` says so in the protocol.
        """

    def go_on(self, stream: ResponseStream, point: ResumePoint) -> None:
        """From now on, read another copy of the response, from `point` on."""

    def failure(self, error: EvenflowError) -> bytes:
        """What a reader is told when no more can be given; empty where it comes back, and is told then."""


class EventId(NamedTuple):
    """The id of a server-sent event: a reader that has it has everything up to `last_index`.

    `epoch`: None where the reader doesn't say. `end`: it has the response's end too.
    """

    last_index: int
    epoch: int | None
    end: bool = False

    def __str__(self) -> str:
        return event_id(self.last_index, self.epoch or 1, end=self.end)

    @classmethod
    def parse(cls, text: str, *, ends: bool = True) -> EventId:
        """The id that a client sends as `Last-Event-ID`.

        Args:
            ends: whether there are ids of an end.

        Raises:
            InvalidRequest: it is none.
        """
        found = _EVENT_ID.fullmatch(text)
        if found is None or (found[3] and not ends):
            raise InvalidRequest(
                f"{LAST_EVENT_ID} must be the id of one of this response's events, not {text[:32]!r}; "
                "nothing was generated",
                code="invalid_field",
                param=LAST_EVENT_ID,
            )
        return cls(int(found[1]), max(1, int(found[2] or 1)), found[3] is not None)


def event_id(index: int, epoch: int, *, end: bool = False) -> str:
    """`12` in the first epoch, `12.3` in the third; `12.end` behind the response's end."""
    return f"{index}{'' if epoch == 1 else f'.{epoch}'}{'.end' if end else ''}"
