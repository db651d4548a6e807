"""Writes responses to the store while they are generated, by a cursor over each log."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from math import ceil

from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.recording import Recording, failure_to_settle
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.base.channel import CHAT, MessageKind
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.stores.response_store import (
    Chunk,
    Lease,
    LeaseLost,
    ResponseStore,
    StoreUnavailable,
    Unwritable,
)
from evenflow.stream_core.stores.session_store import SessionStore

_logger = logging.getLogger(__name__)

_WRITES_AT_ONCE = 16
# Responses flushed per turn: about 1 ms of loop time.
_RESPONSES_AT_ONCE = 100
# The share of the time between two turns by which a turn may come early.
_EARLY_SHARE = 0.25
_LONGEST_PAUSE_SECONDS = 1.0
# Failed writes in a row, about half a minute, after which a reachable store counts as never taking
# the response. If the response still runs, further writes become rare.
_MOST_ERRORS = 60
_ERROR_PAUSE_SECONDS = 60.0
_DRAIN_STEP_SECONDS = 0.01


class ResponseRecorder:
    """Writes the logs of this node to the store, in the background.

    A response's end is written at once, the rest about every `store_interval_ms`. Where it may be
    polled, its first delta is written at once, too, and the rest more often (`Recording.is_due`).
    Responses take turns, so that delivery isn't held up: less often while the delivery clock
    lengthens its interval, or while there are thousands of them. A response has at most one write
    under way. So a slow store gets larger chunks, not more of them, and the order is kept.

    What the store does not take stays in the log, and is written again with jitter. When too much
    waits, `behind` is true and new messages are rejected. A response that could not be written
    until it expires is given up and counted. So is one that has ended, and that a reachable store
    failed to write `_MOST_ERRORS` times in a row.

    Args:
        on_ended: called once with each response whose end is stored: no other node ends it.
        on_lost: called with a response that another node has taken over.
        settle: stores the usage of a response that has ended, and when, in seconds since the epoch.
            It runs before the end is stored: a node that ends it again after a failover replaces
            the usage. While it fails the end waits, for at most 20 s. It returns None if there is
            nothing to store.
        longest_answer: bytes of the longest one that `sessions` keeps. None: any.
    """

    def __init__(
        self,
        context: NodeContext,
        responses: ResponseStore,
        sessions: SessionStore,
        *,
        on_ended: Callable[[ResponseStream], None],
        on_lost: Callable[[ResponseStream], None],
        settle: Callable[[ResponseStream, float], Awaitable[None] | None],
        longest_answer: int | None = None,
    ) -> None:
        self._responses = responses
        self._sessions = sessions
        self._clock = context.clock
        self._limits = context.limits
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._on_ended = on_ended
        self._on_lost = on_lost
        self._settle = settle
        self._longest_answer = longest_answer if context.limits.history_bytes else 0
        self._recordings: OrderedDict[str, Recording] = OrderedDict()
        self._background = Background()
        self._slots = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._urgent: list[Recording] = []
        self.backlog_bytes = 0
        """Bytes of text in the logs that the store does not have."""
        self._turn_at = self._monotonic()
        self._look_every = max(0.1, self._limits.reader_sign_seconds)
        self._delays = context.metrics.distribution(catalogue.STORE_WRITE_DELAY)
        self._retries = context.metrics.counter(catalogue.STORE_RETRIES)
        self._lost = context.metrics.counter(catalogue.STORE_DELTAS_LOST)

    @property
    def behind(self) -> bool:
        """Whether the backlog for the store is too large to accept messages."""
        return self.backlog_bytes > self._limits.store_backlog_bytes

    @property
    def busy(self) -> bool:
        """Whether anything is not in the store yet."""
        return bool(self._recordings)

    def start(self) -> None:
        """Begin to write."""
        self._clock.put_after(self, self._step)

    def record(
        self, stream: ResponseStream, lease: Lease, written: int = 0, kind: MessageKind = CHAT
    ) -> None:
        """Store a response as it grows, to its end. The store has its first `written` entries."""
        now = self._monotonic()
        recording = Recording(
            stream, lease, written, now, look_at=now + self._look_every, kind=kind
        )
        self._recordings[stream.response_id] = recording
        stream.delivery.set_on_urgent(partial(self._on_urgent, recording))
        self._hurry(recording)

    def is_writing(self, response_id: str) -> bool:
        """Whether a response is still being stored."""
        return response_id in self._recordings

    def writes(self, lease: Lease) -> bool:
        """Whether a response under this lease is still being stored."""
        recording = self._recordings.get(lease.response_id)
        return recording is not None and recording.lease == lease

    def lose_everything(self) -> None:
        """Give up everything that is being written: this node has lost its lease."""
        for recording in tuple(self._recordings.values()):
            self._lose(recording)

    async def drain(self, deadline: float) -> None:
        """Write everything, until `deadline` on the monotonic clock at the latest.

        Responses that have not ended are no longer written then, but handed over.
        """
        while self._unwritten and self._monotonic() < deadline:
            self._write_out(tuple(self._recordings.values()))
            await asyncio.sleep(_DRAIN_STEP_SECONDS)
        left = tuple(self._recordings.values())
        for recording in left:
            if recording.stream.log.closed:
                self._give_up(
                    recording,
                    "response %s could not be written to the store before this node left",
                    recording.lease.response_id,
                )
            else:
                self._forget(recording)
        await asyncio.gather(
            *(
                self._hand_over(recording.lease)
                for recording in left
                if not recording.stream.log.closed
            )
        )

    async def aclose(self) -> None:
        """Stop writing."""
        for recording in tuple(self._recordings.values()):
            self._forget(recording)
        await self._background.aclose()

    async def _hand_over(self, lease: Lease) -> None:
        async with self._slots:
            try:
                await self._responses.hand_over(lease)
            except (LeaseLost, StoreUnavailable) as error:
                _logger.info("response %s could not be handed over: %s", lease.response_id, error)

    def on_due(self, _slot: int) -> None:
        """Store what has grown, and look for readers on other nodes."""
        self._clock.put_after(self, self._step)
        now = self._monotonic()
        recordings = self._next_turn(now)
        self._write_out([each for each in recordings if self._is_due(each, now)])
        for recording in recordings:
            self._count(recording, recording.stream.log.text_bytes - recording.stored_bytes)
            if now >= recording.look_at:
                recording.look_at = now + self._look_every
                if recording.is_unread:
                    self._background.run(self._look(recording))

    def _next_turn(self, now: float) -> Sequence[Recording]:
        """The recordings of this turn. Each has one turn in an interval."""
        everything = self._recordings
        share = (now - self._turn_at) / self._interval
        self._turn_at = now
        # A clock that is late, or a burst, makes for a longer interval and not for a longer turn.
        count = min(ceil(len(everything) * min(share, 1.0)), 2 * _RESPONSES_AT_ONCE)
        recordings = tuple(islice(everything.values(), count))
        for recording in recordings:
            everything.move_to_end(recording.stream.response_id)
        return recordings

    def _is_due(self, recording: Recording, now: float) -> bool:
        limits, early = self._limits, self._interval * _EARLY_SHARE
        return recording.is_due(
            now + early, limits.store_interval_ms / 1000, limits.polled_store_interval_ms / 1000
        )

    def _count(self, recording: Recording, backlog_bytes: int) -> None:
        self.backlog_bytes += backlog_bytes - recording.backlog_bytes
        recording.backlog_bytes = backlog_bytes

    @property
    def _unwritten(self) -> bool:
        return any(
            recording.missing or recording.writing or recording.stream.log.closed
            for recording in self._recordings.values()
        )

    # -- writing -----------------------------------------------------------------------------------

    @property
    def _interval(self) -> float:
        """The seconds between two turns of a response."""
        limits = self._limits
        stretch = self._clock.interval * 1000 / limits.batch_window_ms
        # Writing takes time from delivering, so thousands of responses are written less often.
        shortest = len(self._recordings) / self._responses.chunks_per_second
        usual_ms = min(limits.store_interval_ms, limits.polled_store_interval_ms)
        return max(usual_ms / 1000 * stretch, shortest)

    @property
    def _step(self) -> float:
        """The seconds between two turns."""
        return self._interval / max(1, ceil(len(self._recordings) / _RESPONSES_AT_ONCE))

    def _on_urgent(self, recording: Recording) -> None:
        """Write the end at once; a first delta or a result only where it may be polled."""
        if recording.stream.log.closed or recording.is_unread:
            self._hurry(recording)

    def _hurry(self, recording: Recording) -> None:
        # Many responses may begin or end in one turn of the loop. They share requests.
        if not self._urgent:
            asyncio.get_running_loop().call_soon(self._write_urgent)
        self._urgent.append(recording)

    def _write_urgent(self) -> None:
        urgent, self._urgent = self._urgent, []
        self._write_out([recording for recording in urgent if self._is_current(recording)])

    def _write_out(self, recordings: Sequence[Recording]) -> None:
        now = self._monotonic()
        growing: list[Recording] = []
        for recording in recordings:
            log = recording.stream.log
            if recording.sent < log.next_index and recording.waiting_since is None:
                recording.waiting_since = now
            if recording.writing or now < recording.due_at:
                continue
            if recording.written < log.next_index:
                recording.writing = True
                growing.append(recording)
            elif log.closed:
                recording.writing = True
                self._background.run(self._finish(recording))
        most = self._responses.chunks_per_write
        for first in range(0, len(growing), most):
            self._background.run(self._write(growing[first : first + most]))

    async def _write(self, recordings: Sequence[Recording]) -> None:
        async with self._slots:
            # Made only now, so that they contain what came meanwhile.
            chunks = [recording.send(self._began_at(recording)) for recording in recordings]
            wrote_at = self._monotonic()
            left = await self._append(chunks)
        now = self._monotonic()
        unwritten_ids = {chunk.response_id for chunk in left}
        for recording in recordings:
            recording.writing = False
            if not self._is_current(recording):
                continue
            if recording.stream.response_id in unwritten_ids:
                recording.roll_back()
                self._try_later(recording, now)
                continue
            recording.confirm(wrote_at)
            self._delays.record((now - recording.writing_since) * 1000)
            if recording.stream.log.closed:
                self._hurry(recording)

    async def _append(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Write chunks. Returns those that were not written, whatever the error."""
        try:
            return await self._responses.append(chunks)
        except StoreUnavailable:
            return chunks
        except Exception as error:
            known = error if isinstance(error, Unwritable) else Unwritable(chunks, ())
            for chunk in known.chunks:
                if (recording := self._recordings.get(chunk.response_id)) is not None:
                    self._note_error(recording, error)
            return [*known.chunks, *known.left]

    def _note_error(self, recording: Recording, error: Exception) -> None:
        """Count an error. Only a response's first one is logged, since the others repeat it."""
        recording.errors += 1
        if recording.errors == 1:
            _logger.warning(
                "the store refuses response %s; it is tried again %d times",
                recording.lease.response_id,
                _MOST_ERRORS - 1,
                exc_info=error,
            )

    def _began_at(self, recording: Recording) -> float:
        """When its first delta came, in seconds since the epoch. Now, if none has come."""
        return self._wall_time() - self._ago(recording.stream.first_delta_at)

    def _ended_at(self, recording: Recording) -> float:
        """When it ended, in seconds since the epoch."""
        return self._wall_time() - self._ago(recording.stream.ended_at)

    def _ago(self, moment: float | None) -> float:
        return self._monotonic() - moment if moment is not None else 0.0

    async def _finish(self, recording: Recording) -> None:
        stream, limits = recording.stream, self._limits
        ended_at = self._ended_at(recording)
        try:
            ending = recording.ending(ended_at)
            late = await failure_to_settle(
                self._settle(stream, ended_at), lambda: self._ago(stream.ended_at)
            )
            if not recording.end_reported:  # otherwise only the usage is missing
                await self._responses.finish(
                    recording.lease,
                    ending,
                    ended_at + recording.kept_seconds(limits.response_ttl_seconds),
                )
            self._report_end(recording)
            answer = recording.answer(self._longest_answer)
            await self._sessions.record_answer(
                stream.channel, stream.message_id, answer, recording.outcome(answer)
            )
            if late is not None:
                raise late
        except LeaseLost:
            _logger.warning(
                "response %s was taken over by another node before its end was written",
                stream.response_id,
            )
            self._lose(recording)
            return
        except Exception as error:
            if not isinstance(error, StoreUnavailable | TimeoutError):
                self._note_error(recording, error)
            recording.writing = False
            if self._is_current(recording):
                self._try_later(recording, self._monotonic())
            else:
                await self._look_for_end(recording)
            return
        self._forget(recording)

    async def _look_for_end(self, recording: Recording) -> None:
        """Report an end that is stored, and store its usage: the call that stored it failed here.

        A node that is suspended meanwhile loses its lease, and no node stores the end again.
        """
        try:
            head = await self._responses.head(recording.lease.response_id, self._wall_time())
        except StoreUnavailable:
            return
        if head is None or head.ending is None or head.lease != recording.lease:
            return
        self._report_end(recording)
        try:
            # A repetition changes nothing. No other node stores the usage of an answer with an end.
            settling = self._settle(recording.stream, self._ended_at(recording))
            if settling is not None:
                await settling
        except (StoreUnavailable, TimeoutError):
            _logger.error("the usage of response %s is not on record", recording.lease.response_id)

    def _report_end(self, recording: Recording) -> None:
        if not recording.end_reported:
            recording.end_reported = True
            self._on_ended(recording.stream)

    def _try_later(self, recording: Recording, now: float) -> None:
        stream = recording.stream
        self._retries.value += 1
        age = now - stream.ended_at if stream.ended_at is not None else 0.0
        has_expired = age > self._limits.response_ttl_seconds
        is_hopeless = recording.errors >= _MOST_ERRORS
        if has_expired or (is_hopeless and stream.log.closed):
            self._give_up(
                recording,
                "response %s %s before the store had its last %d deltas and its end",
                stream.response_id,
                "expired" if has_expired else f"was refused {recording.errors} times",
                recording.missing,
            )
            self._report_end(recording)  # nothing else will
            return
        recording.failures += 1
        longest = min(_LONGEST_PAUSE_SECONDS, self._interval * 2 ** min(recording.failures, 8))
        recording.due_at = now + random.uniform(0, _ERROR_PAUSE_SECONDS if is_hopeless else longest)

    def _give_up(self, recording: Recording, loss: str, *arguments: object) -> None:
        if recording.end_reported:  # its end is stored
            _logger.error(
                "the usage of response %s is not on record, or its place in the conversation",
                recording.lease.response_id,
            )
        else:
            _logger.error(loss, *arguments)
            self._lost.value += max(1, recording.missing)  # a missing end is a loss, too
        self._forget(recording)

    def _is_current(self, recording: Recording) -> bool:
        return self._recordings.get(recording.stream.response_id) is recording

    def _lose(self, recording: Recording) -> None:
        if self._is_current(recording):
            self._forget(recording)
            self._on_lost(recording.stream)
            if recording.stream.log.closed and not recording.writing:
                self._background.run(self._look_for_end(recording))

    def _forget(self, recording: Recording) -> None:
        stream = recording.stream
        stream.delivery.set_on_urgent(None)
        if self._is_current(recording):
            self._count(recording, 0)
            del self._recordings[stream.response_id]
            if stream.observer is not None:
                stream.observer.recorded(recording.since)

    # -- readers -----------------------------------------------------------------------------------

    async def _look(self, recording: Recording) -> None:
        """Check whether other nodes poll this response, and whether this node still owns it."""
        stream = recording.stream
        try:
            head = await self._responses.head(stream.response_id, self._wall_time())
        except StoreUnavailable:
            return
        if head is None:
            return
        if head.lease != recording.lease:
            self._lose(recording)
            return
        if head.polls > recording.polls:
            recording.polls = head.polls
            if stream.readers.grace_begins_at is not None:
                # A poll counts when it begins, and waits at most `patience`: the grace begins then.
                patience = self._limits.poll_timeout_max_ms / 1000
                stream.readers.begin_grace_at(self._monotonic() + patience)
