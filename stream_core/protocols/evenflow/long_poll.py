"""When a long poll answers, and with what. It has no state, so all nodes and functions agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenflow.stream_core.base.answer import HistoryBound, Usage
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.log.entries import Part
from evenflow.stream_core.log.response_log import LogSlice, ResponseState
from evenflow.stream_core.protocols.evenflow.http_bodies import (
    PollAnswer,
    PollMetadata,
    QueuedAt,
    TextReplaced,
)
from evenflow.stream_core.protocols.evenflow.part_objects import part_object

DEFAULT_TIMEOUT_MS = 10_000

_FIRST_LINGER_SECONDS, _LONGEST_LINGER_SECONDS = 1.0, 3.0
# What came while a poll was on its way is less than this. Slow entries may be few.
_BEHIND_SECONDS, _BEHIND_ENTRIES = 1.0, 10
_HALF_MINUTE_SECONDS = 30.0


def linger_seconds(from_index: int, seconds_since_first_delta: float) -> float:
    """How many seconds a poll waits to collect more text, for a reader that has caught up.

    The first poll (`from_index` 0) doesn't wait. A later one that begins *t* seconds after the
    first delta waits 1 + *t*, and 3 at most. So the waits are 1 s, 2 s, 3 s, 3 s …
    """
    if from_index == 0:
        return 0.0
    waits = _FIRST_LINGER_SECONDS + max(0.0, seconds_since_first_delta)
    return min(waits, _LONGEST_LINGER_SECONDS)


def is_behind(from_index: int, next_index: int, seconds_since_first_delta: float) -> bool:
    """Whether text from `from_index` on has waited for the reader. Its poll answers at once.

    Nothing records when an entry came. So this takes the entries for even since the first delta.
    Entries behind a pause of the model look older than they are, but there are few of them.
    """
    missing = next_index - from_index
    if missing < _BEHIND_ENTRIES:
        return False
    return seconds_since_first_delta * missing / next_index >= _BEHIND_SECONDS


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
        self._is_behind: bool | None = None  # at its beginning

    def end_by(self, at: float) -> None:
        """Answer no later than `at`."""
        self._timeout_at = min(self._timeout_at, at)

    def look(
        self,
        now: float,
        *,
        next_index: int,
        has_news: bool,
        ended: bool,
        first_delta_at: float | None,
    ) -> float:
        """When to answer, as things are at `now`. A time in the past means at once.

        Args:
            next_index: the index behind the newest entry.
            has_news: whether there is text for the poll.
            ended: whether the response has ended.
            first_delta_at: when the first delta came. None: not yet, or not known.
        """
        if not has_news:
            self._nothing_at = now
        since_first = self._started - first_delta_at if first_delta_at is not None else 0.0
        if self._is_behind is None:
            self._is_behind = is_behind(self._from_index, next_index, since_first)
        lingers = 0.0 if self._is_behind else linger_seconds(self._from_index, since_first)
        self._due = answer_at(
            linger_until=self._started + lingers,
            timeout_at=self._timeout_at,
            has_news=has_news,
            ended=ended,
        )
        return self._due

    def had_nothing_until(self, now: float) -> None:
        """Take it that there was no news up to now. A poll that is woken by news tells it."""
        self._nothing_at = now

    def could_at(self, *, has_news: bool, ended_at: float | None) -> float:
        """The earliest time at which it could have answered so: after the last time without
        news.
        """
        if ended_at is not None:
            return max(self._started, ended_at)
        return max(self._due, self._nothing_at) if has_news else self._due


def polls_per_half_minute(polls: int, seconds: float) -> float:
    """The number of polls per half-minute of an answer. A shorter one counts as half a minute.

    While text comes, a poll collects it for 3 s. So about ten is normal, for any length.
    """
    return polls / max(1.0, seconds / _HALF_MINUTE_SECONDS)


def check_from_index(from_index: int, next_index: int) -> None:
    """Check the first index of a poll.

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
    waits for its model. `history_dropped` is the number of the conversation's oldest messages that
    the model does not receive, as far as it is known here.
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
    history_dropped: int = 0
    history_dropped_by: HistoryBound | None = None

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
            history_dropped=self.history_dropped,
            history_dropped_by=self.history_dropped_by,
        )
        body = PollAnswer(
            response_id=self.response_id,
            new_text=self.part.text,
            chunk_index=self.part.last_index,
            status=self.status,
            metadata=metadata,
            full_text=self.full_text,
        )
        fields = body.model_dump(exclude_defaults=True)
        if events := _events(self.part):
            fields["events"] = events
        return fields


def _events(part: LogSlice) -> list[dict[str, Any]]:
    """The parts of a slice, each with the place that it has in the text."""
    events, at = list[dict[str, Any]](), 0
    for index, content in part.contents:
        if isinstance(content, Part):
            events.append({"index": index, "at": at, **part_object(content)})
        else:
            at += len(content)
    return events
