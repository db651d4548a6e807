"""One long-poll: look at the buffer until the rules of `stream_core.long_poll` say that it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from functions.poll_response.stored_responses import StoredResponses
from stream_core.long_poll import Polled, PollPatience, check_from_index
from stream_core.response_log import slice_of
from stream_core.response_state import ResponseState
from stream_core.response_store import Chunk, ResponseHead, StoredEntries, gapless

# How long a delta or an end may wait to be seen, on average half of it. A look costs a read unit.
_LOOK_SECONDS = 0.08


@dataclass(frozen=True, slots=True)
class PollResult:
    """The answer, and what it measured. `late_ms`: from the moment at which it could answer. `polls`: what the whole
    response took, None while it hasn't ended.
    """

    polled: Polled
    late_ms: float
    polls: int | None


class LongPoll:
    """One poll of one response.

    Args:
        response_id, channel: which response, and whose it must be.
        from_index: the first entry that the reader wants.
        patience: seconds.
        wall_time: seconds since the epoch, as are the times in the buffer.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        responses: StoredResponses,
        *,
        response_id: str,
        channel: str,
        from_index: int,
        patience: float,
        wall_time: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._responses = responses
        self._response_id = response_id
        self._channel = channel
        self._from_index = from_index
        self._wall_time = wall_time
        self._sleep = sleep
        self._patience = PollPatience(from_index, wall_time(), patience)
        self._chunks: dict[tuple[int, int, int], Chunk] = {}
        """By epoch and indexes: each look finds the last one again."""

    def run(self) -> PollResult:
        """Wait as long as the rules want.

        Raises:
            NotFound, Gone, InvalidRequest, Overloaded: in the contract's sense.
        """
        self._responses.note_read(self._response_id, self._channel, self._wall_time())
        next_index = self._from_index
        while True:
            new, head = self._responses.chunks_and_head(self._response_id, next_index, self._wall_time())
            self._chunks |= {(chunk.epoch, chunk.first_index, chunk.last_index): chunk for chunk in new}
            found = gapless(head, self._chunks.values(), self._from_index)
            next_index, now = found.next_index, self._wall_time()
            due = self._patience.look(
                now, has_news=bool(found.entries), ended=_ended(head, found), first_delta_at=found.began_at
            )
            if now >= due:
                return self._answer()
            self._sleep(min(_LOOK_SECONDS, due - now))

    def _answer(self) -> PollResult:
        # The head is read once more, behind the chunks: that is what makes a stale owner's entries invisible.
        head = self._responses.head(self._response_id, self._wall_time())
        found = gapless(head, self._chunks.values(), self._from_index)
        ending = head.ending if _ended(head, found) else None
        part = slice_of(found.entries, self._from_index)
        if ending is None:
            begun = self._from_index > 0 or found.began_at is not None
            status = ResponseState.STREAMING if begun else ResponseState.QUEUED
            could_at = self._patience.could_at(has_news=bool(found.entries), ended_at=None)
            return PollResult(Polled(self._response_id, head.message_id, status, part), self._late_ms(could_at), None)
        check_from_index(self._from_index, ending.next_index)
        polled = Polled(
            response_id=self._response_id,
            message_id=head.message_id,
            status=ending.state,
            part=part,
            finish_reason=ending.finish_reason,
            usage=ending.usage,
            error=ending.error,
            degraded=ending.degraded,
            full_text=self._full_text(head),
        )
        could_at = self._patience.could_at(has_news=bool(found.entries), ended_at=ending.ended_at)
        return PollResult(polled, self._late_ms(could_at), head.polls)

    def _full_text(self, head: ResponseHead) -> str:
        if self._from_index == 0:
            whole = gapless(head, self._chunks.values(), 0)
        else:
            chunks, _ = self._responses.chunks_and_head(self._response_id, 0, self._wall_time())
            whole = gapless(head, chunks, 0)
        return slice_of(whole.entries, 0).text

    def _late_ms(self, could_at: float) -> float:
        # Never negative, though the times are those of two machines.
        return max(0.0, self._wall_time() - could_at) * 1000


def _ended(head: ResponseHead, found: StoredEntries) -> bool:
    return head.ending is not None and found.next_index >= head.ending.next_index
