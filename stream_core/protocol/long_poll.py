"""When a long poll answers, and with what. It has no state, so all tasks and functions agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenflow.stream_core.log.entries import Part
from evenflow.stream_core.log.response_log import LogSlice, ResponseState
from evenflow.stream_core.policy.queue_place import QueuePlace
from evenflow.stream_core.protocol.errors import InvalidRequest
from evenflow.stream_core.protocol.http_bodies import (
    PollAnswer,
    PollMetadata,
    QueuedAt,
    TextReplaced,
)
from evenflow.stream_core.protocol.messages import Usage
from evenflow.stream_core.protocol.part_objects import part_object

DEFAULT_TIMEOUT_MS = 10_000

_FIRST_LINGER_SECONDS = 1.0


def linger_seconds(from_index: int, seconds_since_first_delta: float) -> float:
    """How many seconds a poll waits to collect more text.

    The first poll (`from_index` 0) doesn't wait. A later one that begins *t* seconds after the
    first delta waits 1 + *t*. So the waits double: 1 s, 2 s, 4 s …
    """
    if from_index == 0:
        return 0.0
    return _FIRST_LINGER_SECONDS + max(0.0, seconds_since_first_delta)


def answer_at(*, linger_until: float, timeout_at: float, has_news: bool, ended: bool) -> float:
    """When a poll answers, unless something happens before. A time in the past means at once.

    Args:
        linger_until, timeout_at: seconds on one clock.
        has_news: whether there is text for the poll.
        ended: whether the response has ended.
    """
    if ended:
        return 0.0
    return min(linger_until, timeout_at) if has_news else timeout_at


class PollPatience:
    """Decides when one poll answers. All times are seconds on one clock.

    Args:
        from_index: the first entry that the reader wants.
        started: when the poll began.
        patience: how many seconds the reader waits.
    """

    def __init__(self, from_index: int, started: float, patience: float) -> None:
        self._from_index = from_index
        self._started = started
        self._timeout_at = started + patience
        self._nothing_at = started
        self._due = started

    def look(
        self, now: float, *, has_news: bool, ended: bool, first_delta_at: float | None
    ) -> float:
        """When to answer, as things are at `now`. A time in the past means at once."""
        if not has_news:
            self._nothing_at = now
        since_first = self._started - first_delta_at if first_delta_at is not None else 0.0
        self._due = answer_at(
            linger_until=self._started + linger_seconds(self._from_index, since_first),
            timeout_at=self._timeout_at,
            has_news=has_news,
            ended=ended,
        )
        return self._due

    def could_at(self, *, has_news: bool, ended_at: float | None) -> float:
        """The earliest time at which it could have answered so: after the last look without
        news.
        """
        if ended_at is not None:
            return max(self._started, ended_at)
        return max(self._due, self._nothing_at) if has_news else self._due


def check_from_index(from_index: int, next_index: int) -> None:
    """Check the index from which a poll asks.

    Raises:
        InvalidRequest: it is after the end of the log.
    """
    if from_index > next_index:
        raise InvalidRequest(
            f"from_index is {from_index}, but the response's next index is {next_index}",
            code="invalid_field",
            param="from_index",
        )


@dataclass(frozen=True, slots=True)
class Polled:
    """The answer to a poll. `full_text` is there once the response has ended. `place` is where it
    waits for its model.
    """

    response_id: str
    message_id: str
    status: ResponseState
    part: LogSlice
    finish_reason: str | None = None
    usage: Mapping[str, int] | None = None
    error: Mapping[str, Any] | None = None
    degraded: bool = False
    epoch: int = 1
    full_text: str | None = None
    place: QueuePlace | None = None

    def to_body(self) -> dict[str, Any]:
        """The body of the HTTP answer."""
        restarted = self.part.restarted
        metadata = PollMetadata(
            message_id=self.message_id,
            next_index=self.part.last_index + 1,
            finish_reason=self.finish_reason,
            degraded=self.degraded,
            epoch=self.epoch,
            usage=Usage(**self.usage) if self.usage is not None else None,
            restarted=TextReplaced(from_index=restarted.from_index, attempt=restarted.attempt)
            if restarted
            else None,
            error=dict(self.error) if self.error is not None else None,
            queued=QueuedAt(**self.place._asdict()) if self.place is not None else None,
        )
        body = PollAnswer(
            response_id=self.response_id,
            new_text=self.part.text,
            chunk_index=self.part.last_index,
            status=self.status,
            metadata=metadata,
            full_text=self.full_text,
        )
        said = body.model_dump(exclude_defaults=True)
        if events := _events(self.part):
            said["events"] = events
        return said


def _events(part: LogSlice) -> list[dict[str, Any]]:
    """The parts of a slice, each with the place that it has in the text."""
    events, at = list[dict[str, Any]](), 0
    for index, content in part.contents:
        if isinstance(content, Part):
            events.append({"index": index, "at": at, **part_object(content)})
        else:
            at += len(content)
    return events
