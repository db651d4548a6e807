"""Writes responses to the store while they are generated: one more cursor over each log, so there is no queue to overflow."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from math import ceil

from fargate_handler.background import Background
from fargate_handler.node_context import NodeContext
from fargate_handler.orchestrator.recording import Recording
from stream_core.log.response_stream import ResponseStream
from stream_core.metrics import metric_catalogue as catalogue
from stream_core.ports.response_store import Chunk, Lease, LeaseLost, ResponseStore, StoreUnavailable
from stream_core.ports.session_store import SessionStore

_logger = logging.getLogger(__name__)

_WRITES_AT_ONCE = 16
# Writing takes from delivering: thousands of responses are written less often.
_CHUNKS_PER_SECOND = 2_500
# Of thousands, so many have their turn at once: their chunks take the loop a millisecond.
_RESPONSES_AT_ONCE = 100
_LOOKS_PER_GRACE = 3.0
_LONGEST_PAUSE_SECONDS = 1.0
_DRAIN_STEP_SECONDS = 0.01


class ResponseRecorder:
    """The write-behind between the logs of this node and the store.

    The first delta and the end of a response are written at once, everything between about every
    `store_interval_ms`, longer while the delivery clock is stretched, or while thousands of
    responses are written. Those take turns, spread over the interval, so that delivery isn't held
    up. A response has at most one write on its way, so a slow store makes for larger chunks rather
    than more of them, and order keeps itself. What the store does not take is written again with
    jitter; it stays in the log meanwhile, where it would be anyway. When too much is waiting,
    `behind` is true and new messages are refused. A response that could not be written until it
    expires is given up, and counted.

    Args:
        on_lost: called with a response that another task has taken over.
    """

    def __init__(
        self,
        context: NodeContext,
        responses: ResponseStore,
        sessions: SessionStore,
        *,
        on_lost: Callable[[ResponseStream], None],
    ) -> None:
        self._responses = responses
        self._sessions = sessions
        self._clock = context.clock
        self._limits = context.limits
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._on_lost = on_lost
        self._recordings: OrderedDict[str, Recording] = OrderedDict()
        self._background = Background()
        self._slots = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._urgent: list[Recording] = []
        self.backlog_bytes = 0
        """Text in the logs that the store does not have."""
        self._turn_at = self._monotonic()
        self._look_every = max(0.1, self._limits.grace_seconds / _LOOKS_PER_GRACE)
        self._delays = context.metrics.distribution(catalogue.STORE_WRITE_DELAY)
        self._retries = context.metrics.counter(catalogue.STORE_RETRIES)
        self._lost = context.metrics.counter(catalogue.STORE_DELTAS_LOST)

    @property
    def behind(self) -> bool:
        """Whether so much waits for the store that nothing new should be accepted."""
        return self.backlog_bytes > self._limits.store_backlog_bytes

    @property
    def busy(self) -> bool:
        """Whether anything is not in the store yet."""
        return bool(self._recordings)

    def start(self) -> None:
        """Begin."""
        self._clock.put_after(self, self._step)

    def record(self, stream: ResponseStream, lease: Lease, written: int = 0) -> None:
        """From now on `stream` is written as it grows, until its end is; the store has its first `written` entries."""
        now = self._monotonic()
        recording = Recording(stream, lease, written, now, look_at=now + self._look_every)
        self._recordings[stream.response_id] = recording
        stream.on_urgent = partial(self._hurry, recording)
        self._hurry(recording)

    def is_writing(self, response_id: str) -> bool:
        """Whether a response is still being written, its generation ended or not."""
        return response_id in self._recordings

    def writes(self, lease: Lease) -> bool:
        """Whether a response is still being written under this lease, its generation ended or not."""
        recording = self._recordings.get(lease.response_id)
        return recording is not None and recording.lease == lease

    def lose_everything(self) -> None:
        """Nothing that is being written is this task's any more."""
        for recording in tuple(self._recordings.values()):
            self._lose(recording)

    async def drain(self, deadline: float) -> None:
        """Return when everything is written that there is, or at `deadline` on the monotonic clock.

        What has not ended by then is no longer written: another task goes on with it.
        """
        while self._unwritten and self._monotonic() < deadline:
            self._write_out(tuple(self._recordings.values()))
            await asyncio.sleep(_DRAIN_STEP_SECONDS)
        left = tuple(self._recordings.values())
        for recording in left:
            if recording.stream.log.closed:
                _logger.error(
                    "response %s could not be written to the store before leaving", recording.lease.response_id
                )
                self._give_up(recording)
            else:
                self._forget(recording)
        await asyncio.gather(
            *(self._hand_over(recording.lease) for recording in left if not recording.stream.log.closed)
        )

    async def aclose(self) -> None:
        """Write no more."""
        for recording in tuple(self._recordings.values()):
            self._forget(recording)
        await self._background.aclose()

    async def _hand_over(self, lease: Lease) -> None:
        async with self._slots:
            try:
                await self._responses.hand_over(lease)
            except (LeaseLost, StoreUnavailable) as error:
                _logger.info("response %s isn't handed over in order: %s", lease.response_id, error)

    def on_due(self, _slot: int) -> None:
        """Write what has grown, look for readers elsewhere."""
        self._clock.put_after(self, self._step)
        now = self._monotonic()
        recordings = self._next_turn(now)
        self._write_out(recordings)
        for recording in recordings:
            self._count(recording, recording.stream.log.text_bytes - recording.stored_bytes)
            if now >= recording.look_at:
                recording.look_at = now + self._look_every
                if recording.stream.unread_since is not None and not recording.stream.state.terminal:
                    self._background.run(self._look(recording))

    def _next_turn(self, now: float) -> Sequence[Recording]:
        """Whose turn it is: each has one in an interval."""
        everything = self._recordings
        share = (now - self._turn_at) / self._interval
        self._turn_at = now
        # A clock that is late, or a burst, makes for a longer interval and not for a longer turn.
        count = min(ceil(len(everything) * min(share, 1.0)), 2 * _RESPONSES_AT_ONCE)
        recordings = tuple(islice(everything.values(), count))
        for recording in recordings:
            everything.move_to_end(recording.stream.response_id)
        return recordings

    def _count(self, recording: Recording, backlog_bytes: int) -> None:
        self.backlog_bytes += backlog_bytes - recording.backlog_bytes
        recording.backlog_bytes = backlog_bytes

    @property
    def _unwritten(self) -> bool:
        return any(
            recording.missing or recording.writing or recording.stream.log.closed
            for recording in self._recordings.values()
        )

    # -- writing -------------------------------------------------------------------------------------------------

    @property
    def _interval(self) -> float:
        stretch = self._clock.interval * 1000 / self._limits.batch_window_ms
        return max(self._limits.store_interval_ms / 1000 * stretch, len(self._recordings) / _CHUNKS_PER_SECOND)

    @property
    def _step(self) -> float:
        """The seconds between two turns."""
        return self._interval / max(1, ceil(len(self._recordings) / _RESPONSES_AT_ONCE))

    def _hurry(self, recording: Recording) -> None:
        # Many responses may begin or end in one turn of the loop: they share requests.
        if not self._urgent:
            asyncio.get_running_loop().call_soon(self._write_urgent)
        self._urgent.append(recording)

    def _write_urgent(self) -> None:
        urgent, self._urgent = self._urgent, []
        self._write_out([recording for recording in urgent if self._is_ours(recording)])

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
            # Made only now: what has come while it waited goes along.
            chunks = [recording.send(self._began_at(recording)) for recording in recordings]
            left = await self._append(chunks)
        now = self._monotonic()
        not_taken = {chunk.response_id for chunk in left}
        for recording in recordings:
            recording.writing = False
            if not self._is_ours(recording):
                continue
            if recording.stream.response_id in not_taken:
                recording.take_back()
                self._try_later(recording, now)
                continue
            recording.take_note()
            self._delays.record((now - recording.writing_since) * 1000)
            if recording.stream.log.closed:
                self._hurry(recording)

    async def _append(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """What the store has not taken, whatever it says."""
        try:
            return await self._responses.append(chunks)
        except StoreUnavailable:
            return chunks
        except Exception:
            _logger.exception("the store failed at writing in a way that it doesn't know")
            return chunks

    def _began_at(self, recording: Recording) -> float:
        """When its first delta came, or would come now, in seconds since the epoch."""
        return self._wall_time() - self._ago(recording.stream.first_delta_at)

    def _ago(self, moment: float | None) -> float:
        return self._monotonic() - moment if moment is not None else 0.0

    async def _finish(self, recording: Recording) -> None:
        stream, limits = recording.stream, self._limits
        ended_at = self._wall_time() - self._ago(stream.ended_at)
        try:
            ending = recording.ending(ended_at)
            await self._responses.finish(recording.lease, ending, ended_at + limits.response_ttl_seconds)
            answer = recording.answer(limits.history_bytes)
            await self._sessions.answered(stream.channel, stream.message_id, answer)
        except LeaseLost:
            _logger.warning("response %s was taken over by another task while it was written", stream.response_id)
            self._lose(recording)
            return
        except Exception as error:
            if not isinstance(error, StoreUnavailable):
                _logger.exception("the store refused the end of a response")
            recording.writing = False
            if self._is_ours(recording):
                self._try_later(recording, self._monotonic())
            return
        self._forget(recording)

    def _try_later(self, recording: Recording, now: float) -> None:
        stream = recording.stream
        self._retries.value += 1
        if stream.ended_at is not None and now - stream.ended_at > self._limits.response_ttl_seconds:
            _logger.error(
                "response %s expired before the store had its last %d deltas and its end",
                stream.response_id,
                recording.missing,
            )
            self._give_up(recording)
            return
        recording.failures += 1
        longest = min(_LONGEST_PAUSE_SECONDS, self._interval * 2 ** min(recording.failures, 8))
        recording.due_at = now + random.uniform(0, longest)

    def _give_up(self, recording: Recording) -> None:
        self._lost.value += max(1, recording.missing)  # the end alone is a loss too: readers would wait for it
        self._forget(recording)

    def _is_ours(self, recording: Recording) -> bool:
        return self._recordings.get(recording.stream.response_id) is recording

    def _lose(self, recording: Recording) -> None:
        if self._is_ours(recording):
            self._forget(recording)
            self._on_lost(recording.stream)

    def _forget(self, recording: Recording) -> None:
        recording.stream.on_urgent = None
        if self._is_ours(recording):
            self._count(recording, 0)
            del self._recordings[recording.stream.response_id]

    # -- readers ---------------------------------------------------------------------------------------

    async def _look(self, recording: Recording) -> None:
        """See in the store whether somebody reads this elsewhere, and whether it is still ours."""
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
            if stream.unread_since is not None:
                # A poll is counted when it begins, and may wait so long: only then the grace period does begin.
                stream.unread_since = self._monotonic() + self._limits.poll_timeout_max_ms / 1000
