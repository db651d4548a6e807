"""One long poll: read the response store until it is time to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from evenflow.functions.poll_response.stored_responses import StoredResponses
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import REPLACES_ALL, LogSlice, ResponseState, slice_of
from evenflow.stream_core.protocols.evenflow.long_poll import (
    Polled,
    PollPatience,
    check_from_index,
    polls_per_half_minute,
)
from evenflow.stream_core.stores.response_store import (
    Chunk,
    Ending,
    ResponseHead,
    StoredEntries,
    gapless,
)

# The interval of reads before the first news, and while a poll lingers: news waits half of it on
# average. Each read costs a read unit.
_LOOK_SECONDS, _LINGERING_LOOK_SECONDS = 0.08, 0.2
# A task may have sent its reader entries that the store doesn't have yet.
_MOST_UNRECORDED_ENTRIES = 10_000
_RETRY_AFTER_MS = 3_000


@dataclass(frozen=True, slots=True)
class PollResult:
    """The answer to a poll, and its measurements.

    Args:
        late_ms: milliseconds from the moment at which it could have answered.
        polls: the polls per half-minute of the whole response. None while it hasn't ended.
    """

    polled: Polled
    late_ms: float
    polls: float | None


@dataclass(frozen=True, slots=True)
class _Look:
    """The response at one look. `first_news` is the first entry that the reader doesn't have."""

    head: ResponseHead
    found: StoredEntries
    first_news: int

    @property
    def has_news(self) -> bool:
        return self.found.next_index > self.first_news

    @property
    def ending(self) -> Ending | None:
        """How the response ended, once its whole log has been read."""
        ending = self.head.ending
        return ending if ending is not None and self.found.next_index >= ending.next_index else None


class LongPoll:
    """One poll of one response.

    Args:
        response_id: which response.
        channel: the session that it must belong to.
        from_index: the first entry that the reader wants.
        epoch: the newest epoch that the reader knows, 1 by default. If a later owner began before
            `from_index`, the reader begins again.
        patience: how many seconds the reader waits.
        shared: whether it came with a share token.
        most_waiting: the limit of waiting polls of the response: one for share tokens, and the
            same for session tokens.
        wall_time: seconds since the epoch, like the times in the store.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        responses: StoredResponses,
        *,
        response_id: str,
        channel: str,
        from_index: int,
        epoch: int,
        patience: float,
        shared: bool,
        most_waiting: int,
        wall_time: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._responses = responses
        self._response_id = response_id
        self._channel = channel
        self._from_index = from_index
        self._epoch = epoch
        self._shared = shared
        self._most_waiting = most_waiting
        self._wall_time = wall_time
        self._sleep = sleep
        self._patience = PollPatience(from_index, wall_time(), patience)
        self._chunks: dict[tuple[int, int, int], Chunk] = {}
        """The chunks by epoch and indexes. Each look finds the last one again."""

    def run(self) -> PollResult:
        """Wait until it is time to answer. Returns the answer.

        Raises:
            NotFound: there is no such response, or it is another session's.
            Gone: the response ended too long ago.
            InvalidRequest: `from_index` is after the end of the log.
            RateLimited: too many newer polls of the response wait.
            Overloaded: DynamoDB can't be read.
        """
        head = self._responses.note_poll(
            self._response_id, self._channel, self._wall_time(), shared=self._shared
        )
        number, next_index, is_checked = self._polls(head), self._first_index(head), False
        while True:
            new, head = self._responses.chunks_and_head(
                self._response_id, next_index, self._wall_time()
            )
            self._chunks |= {
                (chunk.epoch, chunk.first_index, chunk.last_index): chunk for chunk in new
            }
            look, waits = self._look(head)
            if waits <= 0 and head.ending is None:
                # Read the head once more, after the chunks: it shows which ones an earlier owner
                # wrote too late. An ending is final.
                look, waits = self._look(self._responses.head(self._response_id, self._wall_time()))
            if waits <= 0:
                return self._answer(look)
            self._check_waiting(self._polls(look.head) - number)
            if not is_checked:
                self._check_first_index(look)
                is_checked = True
            next_index = look.found.next_index
            self._sleep(min(_LINGERING_LOOK_SECONDS if look.has_news else _LOOK_SECONDS, waits))

    def _look(self, head: ResponseHead) -> tuple[_Look, float]:
        """The valid entries under this head, and the seconds to wait before answering."""
        found = gapless(head, self._chunks.values(), self._first_index(head))
        look, now = _Look(head, found, self._first_news(head)), self._wall_time()
        due = self._patience.look(
            now,
            next_index=found.next_index,
            has_news=look.has_news,
            ended=look.ending is not None,
            first_delta_at=found.began_at,
        )
        return look, due - now

    def _polls(self, head: ResponseHead) -> int:
        return head.share_polls if self._shared else head.session_polls

    def _check_waiting(self, newer: int) -> None:
        """Check the number of newer waiting polls. The newest goes on: its reader still waits."""
        if newer >= self._most_waiting:
            raise RateLimited(
                "too many polls of this response wait; nothing is lost, poll again from the same "
                "index",
                code="session_streams",
                retry_after_ms=_RETRY_AFTER_MS,
            )

    def _check_first_index(self, look: _Look) -> None:
        """Check that `from_index` may follow what is on record, if the entry before it isn't."""
        is_ahead = look.first_news == self._from_index > _MOST_UNRECORDED_ENTRIES
        if is_ahead and not self._chunks:
            next_index = self._responses.next_index(self._response_id)
            if self._from_index > next_index + _MOST_UNRECORDED_ENTRIES:
                check_from_index(self._from_index, next_index)

    def _first_news(self, head: ResponseHead) -> int:
        later_owner_begins_at = head.first_index_after(self._epoch)
        return (
            self._from_index
            if later_owner_begins_at is None
            else min(self._from_index, later_owner_begins_at)
        )

    def _first_index(self, head: ResponseHead) -> int:
        """The index at which the answer begins."""
        return self._from_index if self._first_news(head) == self._from_index else 0

    # -- the answer --------------------------------------------------------------------------------

    def _answer(self, look: _Look) -> PollResult:
        begun = self._from_index > 0 or look.found.began_at is not None
        begun_epochs = [
            epoch for epoch, start in look.head.starts.items() if start < look.found.next_index
        ]
        polled = Polled(
            response_id=self._response_id,
            message_id=look.head.message_id,
            status=ResponseState.STREAMING if begun else ResponseState.QUEUED,
            part=self._part(look),
            epoch=max([self._epoch, *begun_epochs]),
        )
        ending = look.ending
        if ending is None:
            return PollResult(polled, self._late_ms(look), None)
        check_from_index(look.found.first_index, ending.next_index)
        polled = replace(
            polled,
            status=ending.state,
            finish_reason=ending.finish_reason,
            usage=ending.usage,
            error=ending.error,
            degraded=ending.degraded,
            full_text=self._full_text(look),
        )
        seconds = ending.ended_at - look.head.created_at
        polls = polls_per_half_minute(look.head.polls, seconds)
        return PollResult(polled, self._late_ms(look), polls)

    def _part(self, look: _Look) -> LogSlice:
        part = slice_of(look.found.entries, look.found.first_index)
        if look.first_news == self._from_index:
            return part
        if not look.has_news:
            # The later owner's beginning isn't on record yet. Until then the reader keeps its text.
            return LogSlice((), self._from_index - 1, None)
        markers = [entry for entry in look.found.entries if isinstance(entry, Restart)]
        return replace(part, restarted=Restart(REPLACES_ALL, markers[-1].attempt, look.head.epoch))

    def _full_text(self, look: _Look) -> str:
        entries = look.found.entries
        if look.found.first_index > 0:
            chunks, _ = self._responses.chunks_and_head(self._response_id, 0, self._wall_time())
            entries = gapless(look.head, chunks, 0).entries
        return slice_of(entries, 0).text

    def _late_ms(self, look: _Look) -> float:
        ended_at = None if look.ending is None else look.ending.ended_at
        # Never negative, though the times come from two machines.
        return (
            max(
                0.0,
                self._wall_time()
                - self._patience.could_at(has_news=look.has_news, ended_at=ended_at),
            )
            * 1000
        )
