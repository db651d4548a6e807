"""A response in memory: its log, what may still come, and the readers it is delivered to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from evenflow.stream_core.base.answer import HistoryBound, Usage, Via
from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.queue_place import BEGUN, QueuePlace
from evenflow.stream_core.delivery.answer_figures import AnswerFigures, AnswerObserver
from evenflow.stream_core.delivery.backpressure import Backpressure
from evenflow.stream_core.delivery.batch import ENDED_BATCH, Batch
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock
from evenflow.stream_core.delivery.paced_delivery import PacedDelivery
from evenflow.stream_core.delivery.reader import Reader
from evenflow.stream_core.delivery.readers import ResponseReaders
from evenflow.stream_core.delivery.token_allowance import TokenAllowance, tokens_in
from evenflow.stream_core.log.entries import JOINING, LogEntry, Part, Restart, size_of
from evenflow.stream_core.log.folded_entries import FoldedEntries
from evenflow.stream_core.log.response_log import (
    LogClosed,
    ResponseEvent,
    ResponseLog,
    ResponseState,
    next_response_state,
    slice_of,
)

_END_EVENTS = {
    ResponseState.COMPLETED: ResponseEvent.COMPLETE,
    ResponseState.ERROR: ResponseEvent.FAIL,
    ResponseState.CANCELLED: ResponseEvent.CANCEL,
}
_REMEMBERED = (ResponseState.COMPLETED, ResponseState.ERROR)

Cancelled = Literal["cancelled", "abandoned"]
"""Why a response was cancelled: a client requested it, or the grace period without a reader ended.
"""


class ResponseFull(Exception):
    """The response has reached its size limit. Its text is delivered, and it ends with `length`."""


class ResponseStream:
    """One response: a token source pushes tokens, and it passes through the states of a response.

    Its parts do the rest. `log` holds the entries, `allowance` bounds them, `delivery` brings them
    to the `readers`, and `backpressure` pauses the model. A full batch is appended to the log at
    once, so that an index never stands for many tokens. It is still delivered with its interval, so
    a burst of the model is no burst on the screen.

    Args:
        monotonic: seconds, to measure when a delta is really delivered.
        kind: of the message. It says how long the interval is at least.
    """

    __slots__ = (
        "_batch",
        "_clock",
        "_monotonic",
        "_withdraws",
        "acknowledged",
        "allowance",
        "attempt",
        "backpressure",
        "channel",
        "created_at",
        "degraded",
        "delivery",
        "ended_at",
        "epoch",
        "error",
        "figures",
        "finish_reason",
        "history_dropped",
        "history_dropped_by",
        "kept_index",
        "log",
        "message_id",
        "observer",
        "place",
        "polls",
        "readers",
        "response_id",
        "signs_of_life",
        "state",
        "usage",
        "via",
    )

    def __init__(
        self,
        *,
        response_id: str,
        message_id: str,
        channel: Channel,
        clock: DeliveryClock,
        limits: Limits,
        monotonic: Callable[[], float],
        kind: MessageKind = CHAT,
    ) -> None:
        self.response_id, self.message_id, self.channel = response_id, message_id, channel
        self.state = ResponseState.QUEUED
        self.created_at = monotonic()
        self.ended_at: float | None = None
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self.error: dict[str, Any] | None = None
        self.degraded = False
        """Whether a fallback took the model's place."""
        self.epoch = 1
        """The epoch of this node, where it is the response's owner."""
        self.via: Via = "owner"
        """Where the entries come from: this node, another one, or the store."""
        self.attempt = 1
        self.kept_index = -1
        """The last index of the completed steps, which are never replaced. -1 without any."""
        self.place: QueuePlace | None = None
        """Where it waits for the model, as published to readers. None: it doesn't, or not for long.
        """
        self.history_dropped = 0
        """How many messages of its conversation the model does not receive."""
        self.history_dropped_by: HistoryBound | None = None
        """The bound by which the model does not receive the oldest messages."""
        self.signs_of_life = 0
        """How often the model has shown, without a token, that it is alive."""
        self.polls = 0
        """How often it was polled."""
        self.acknowledged = -1
        """The last index that a client has acknowledged."""
        self.figures = AnswerFigures()
        self.observer: AnswerObserver | None = None
        self.log = log = ResponseLog()
        self.allowance = TokenAllowance(limits.response_bytes)
        self.readers = ResponseReaders(limits.readers_per_response, clock, monotonic)
        self.backpressure = Backpressure(log, self.readers, self.allowance, limits, monotonic)
        self._batch = Batch(log, limits.batch_tokens)
        self.delivery = PacedDelivery(
            log,
            self._batch,
            self.readers,
            self.allowance,
            self.backpressure,
            clock,
            clock.intervals.interval_of(channel.tenant),
            limits,
            kind,
            monotonic,
        )
        self._clock, self._monotonic = clock, monotonic
        # Whether text is shown before filters have cleared it, so that a restart withdraws it.
        self._withdraws = False

    @property
    def is_owned_here(self) -> bool:
        """Whether this node generates the answer. Otherwise it has a replica."""
        return self.via == "owner"

    @property
    def tokens(self) -> int:
        """The tokens of the model in all attempts, by our own count (`tokens_in`)."""
        return self.allowance.tokens

    @property
    def paused(self) -> bool:
        """Whether the token source should not read its model."""
        return self.backpressure.paused

    @property
    def first_delta_at(self) -> float | None:
        """When the first delta was delivered, in seconds. None: not yet."""
        return self.delivery.first_delta_at

    @property
    def is_full(self) -> bool:
        """Whether the next piece of the model raises `ResponseFull`."""
        return self.log.text_bytes >= self.allowance.full_at

    @property
    def answer(self) -> tuple[bytes, ...]:
        """The current text, as pieces of UTF-8.

        To keep them takes no further memory, unless text was replaced or there are parts.
        """
        log, entries = self.log, self.log.entries
        if isinstance(entries, FoldedEntries) and not (log.restarts or log.parts):
            return entries.text
        text = log.text.encode()
        return (text,) if text else ()

    @property
    def is_remembered(self) -> bool:
        """Whether the model receives its text later: after an error, too, since the reader has it.

        A stopped answer is not wanted. The readers of an abandoned one may have it continued.
        """
        kept = self.state in _REMEMBERED or self.finish_reason == "abandoned"
        return kept and not self.degraded

    # -- what the token source does ----------------------------------------------------------------

    def push(self, token: str) -> None:
        """Add a token of the model. Never waits.

        Raises:
            ResponseFull: the response has reached its size limit. The model must stop.
            LogClosed: the response has ended, for example because it was cancelled.
        """
        log, allowance = self.log, self.allowance
        if log.text_bytes >= allowance.full_at:
            raise ResponseFull
        if not token:
            return
        batch, delivery = self._batch, self.delivery
        if len(token) > batch.longest_text:
            self._push_unbatched(token)
            return
        allowance.tokens = tokens = allowance.tokens + 1
        if tokens >= allowance.check_at:
            self._check_allowance()
        if not delivery.is_scheduled and self._clock.position >= delivery.due:
            delivery.deliver(token)
            return
        if log.state is not None:
            raise LogClosed(
                "a token came after the end of its response; the log keeps what it held"
            )
        if batch.add(token):
            log.append(batch.cut_text())
            if not self.readers:
                self.backpressure.update()
        if not delivery.is_scheduled:
            delivery.schedule()

    def push_part(self, part: Part) -> None:
        """Add a part of the model's answer. Never waits.

        Raises:
            NotAPart: a field of the part is not allowed.
            ResponseFull, LogClosed: as of `push`.
        """
        part.check()
        if self.is_full:
            raise ResponseFull
        if self.log.closed:
            raise LogClosed("a part came after the end of its response; the log keeps what it held")
        if part.kind in JOINING and not part.text:
            return
        full_at = self.allowance.full_at  # the part at which a limit is reached is still added
        self.allowance.count_part(part)
        self._check_allowance()
        if part.kind not in JOINING:
            self._batch.cut()
            self.log.append_part(part)
            self.delivery.deliver_or_schedule()
        elif self._batch.fits(part.text):
            self._batch.add_part(part)
            self.delivery.deliver_or_schedule()
        else:
            self._append_long(part.text, part, full_at)

    def alive(self) -> None:
        """Record that the model is alive, without a token."""
        self.signs_of_life += 1

    def count_to(self, counted: int) -> None:
        """Set the counted tokens, with those that filters keep back."""
        self.allowance.count_to(counted)
        self._check_allowance()

    def _push_unbatched(self, text: str) -> None:
        """Add a text that is too long for a batch, or comes behind parts."""
        if self.log.closed:
            raise LogClosed(
                "a token came after the end of its response; the log keeps what it held"
            )
        if self._batch.fits(text):
            self._batch.cut()  # parts wait
            self.push(text)
            return
        full_at = self.allowance.full_at
        self.allowance.tokens += tokens_in(text)
        self._check_allowance()
        self._append_long(text, None, full_at)

    def _append_long(self, text: str, part: Part | None, full_at: int) -> None:
        is_full = self._batch.append_long(text, part, full_at)
        self.delivery.deliver_or_schedule()
        if is_full:
            raise ResponseFull

    # -- what bounds it ----------------------------------------------------------------------------

    def reserve_tokens(self, tokens: int, low_at: int) -> None:
        """Allow it `tokens` in all, as `TokenAllowance.reserve`. A paused model may be resumed."""
        self.allowance.reserve(tokens, low_at)
        self._check_allowance()
        self.backpressure.update_if_paused()

    def stop_reserving(self) -> None:
        """Allow it no more than before. With all of that it ends with `budget`."""
        self.allowance.stop_reserving()
        self._check_allowance()
        self.backpressure.update_if_paused()

    def discount_attempt(self) -> None:
        """Stop counting the tokens of the attempt before, which are replaced."""
        self.allowance.discount_attempt()
        self.backpressure.update_if_paused()

    def _check_allowance(self) -> None:
        allowance = self.allowance
        if allowance.tokens >= allowance.check_at and allowance.check():
            self.backpressure.update()

    # -- what the generation does ------------------------------------------------------------------

    def start(self) -> None:
        """The response leaves the queue: its generation begins."""
        self._fire(ResponseEvent.START)
        self.figures.began_at = self._monotonic()

    def adopt_log(self, entries: Sequence[LogEntry], epoch: int, began_at: float | None) -> None:
        """Resume the response of an earlier owner, as its owner of `epoch`.

        The earlier text is current until `ResponseStream.restart`, at this owner's first token.

        Args:
            entries: the log as it is on record.
            began_at: when the first delta came, in seconds on the monotonic clock.
        """
        log = self.log
        log.extend(entries)
        self.epoch = epoch
        self.delivery.adopt(began_at)
        self.attempt = 1 + max(
            (entry.attempt for entry in entries if isinstance(entry, Restart)), default=1
        )
        self.allowance.replace_text(log.text_bytes, sum(map(size_of, log.read(0).current)))
        # It replaces nothing: it marks where the entries of this owner begin.
        log.restart(log.next_index - 1, self.attempt, epoch)

    def next_attempt(self) -> None:
        """Begin another attempt after a failed one. The text stays current until `restart`."""
        self._fire(ResponseEvent.RESTART)
        self.attempt += 1
        self.figures.retries += 1

    def restart(self) -> None:
        """Replace what was delivered after `kept_index` by what this attempt gives from now on."""
        log = self.log
        self._batch.drop()
        kept = slice_of(log.entries[: self.kept_index + 1], 0).current
        self.allowance.replace_text(log.text_bytes, sum(map(size_of, kept)))
        if log.next_index > self.kept_index + 1:
            log.restart(self.kept_index, self.attempt, withdraws=self._withdraws)
            self.delivery.deliver("")

    def show_unfiltered(self) -> None:
        """Let restarts withdraw text: it is shown before filters have cleared it."""
        self._withdraws = True

    def keep_step(self, index: int) -> None:
        """Keep all up to `index`, a step of the model. Its next call has a limit of its own."""
        self.kept_index = index
        self.allowance.keep_step()

    def add_result(self, part: Part) -> None:
        """Append the result of a client's tool, and deliver it at once.

        It is stored at once only without a reader on this node: else with the next write, within
        `store_interval_ms`.

        Raises:
            LogClosed: the response has ended.
        """
        self._batch.cut()
        self.log.append_part(part)
        self.delivery.deliver_to_all(self._monotonic())
        self.delivery.mark_urgent()

    def drop_history(self, messages: int, by: HistoryBound) -> None:
        """Record that the model does not receive the oldest messages, and notify the readers.

        Args:
            messages: the number of further messages left out.
            by: the bound.
        """
        if messages:
            self.history_dropped += messages
            self.history_dropped_by = by
            for reader in [*self.readers]:
                reader.announce_start()

    def substitute(self, text: str, error: dict[str, Any] | None = None) -> None:
        """Use a fallback in the model's place, because of `error`. `complete` delivers it."""
        self.error = error
        self.degraded = True
        self._batch.cut()
        self._batch.add(text)

    def complete(self, finish_reason: str, usage: Usage | None) -> None:
        """End the response: the model has finished, with `stop` or `length`."""
        self._fire(ResponseEvent.COMPLETE)
        self.usage = usage
        self.finish_reason = finish_reason
        self._end()

    def fail(self, error: dict[str, Any]) -> None:
        """End the response with an error: no attempt is left. The text delivered stays."""
        self._fire(ResponseEvent.FAIL)
        self.error = error
        self._end()

    def cancel(self, finish_reason: Cancelled = "cancelled") -> None:
        """Cancel the response: a client requested it, or it has no reader. Its text stays."""
        self._fire(ResponseEvent.CANCEL)
        self.finish_reason = finish_reason
        self._end()

    def flush(self) -> None:
        """Deliver what the batch holds, so that another owner can resume after it."""
        before = self.log.next_index
        self._batch.cut()
        if self.log.next_index > before:
            self.delivery.deliver("")

    def lose(self) -> None:
        """Give this copy up: its readers find the response again and resume."""
        self._batch.drop()
        self.readers.lose()

    def detach_generation(self) -> None:
        """Forget the generation's callbacks and lost slot: it has ended."""
        self.backpressure.detach()
        self.delivery.set_on_first_delta(None)

    def observe(self, observer: AnswerObserver | None) -> None:
        """Report to `observer` what happens to this response. None: to nothing."""
        self.observer = observer

    # -- its place in the queue --------------------------------------------------------------------

    def publish_place(self, place: QueuePlace) -> None:
        """Send all readers its place in the queue, if that has changed.

        Other nodes receive it in any case: they take a silent owner for lost.
        """
        changed, self.place = place != self.place, place
        for reader in [*self.readers]:
            is_client = reader.user is not None
            if changed or not is_client:
                reader.on_queued(place)

    def leave_queue(self) -> None:
        """End its wait for the model. Clients see that from its text."""
        if self.place is not None:
            self.place = None
            for reader in [*self.readers]:
                is_client = reader.user is not None
                if not is_client:
                    reader.on_queued(BEGUN)

    def clear_place(self) -> None:
        """Forget its place in the queue: the owner sends it, if it waits."""
        self.place = None

    # -- what follows another copy -----------------------------------------------------------------

    def set_source(self, via: Via) -> None:
        """Record where this copy has its entries from."""
        self.via = via

    def follow(self, entries: Sequence[LogEntry]) -> None:
        """Add and deliver entries of the copy that this one follows.

        Raises:
            LogClosed: the response has ended.
        """
        if not entries:
            return
        if self.state is ResponseState.QUEUED:
            self.start()
        self.place = None
        self.log.extend(entries)
        self.delivery.deliver_unpaced()

    def copy_ending(
        self,
        state: ResponseState,
        *,
        finish_reason: str | None = None,
        usage: Usage | None = None,
        error: dict[str, Any] | None = None,
        degraded: bool = False,
        ended_at: float | None = None,
    ) -> None:
        """End in the terminal state of the copy that this one follows.

        Args:
            ended_at: when that copy ended, in seconds. None: now.

        Raises:
            LogClosed: the response has ended.
        """
        if self.log.closed:
            raise LogClosed("an end came after the end of its response; the first one stands")
        if self.state is ResponseState.QUEUED and state is ResponseState.COMPLETED:
            self.start()
        self._fire(_END_EVENTS[state])
        self.finish_reason, self.usage = finish_reason, usage
        self.error, self.degraded = error, degraded
        self._end(ended_at)

    # -- what readers do ---------------------------------------------------------------------------

    def attach(self, reader: Reader) -> None:
        """Add a reader, and deliver at once what it has not been given."""
        now = self.readers.add(reader)
        if self.observer is not None:
            self.observer.attached(reader)
        self.backpressure.update()
        reader.deliver(now, None)
        if self.place is not None:
            reader.on_queued(self.place)

    def detach(self, reader: Reader) -> None:
        """Remove a reader. When the last one leaves, the grace period begins."""
        if reader in self.readers:
            self.readers.remove(reader)
            if self.observer is not None:
                self.observer.detached(reader)
            self.backpressure.update()
            if not self.readers:
                self.readers.end_reading()

    def acknowledge(self, index: int) -> int:
        """Record that a client has everything up to `index`. Returns how many deltas that adds."""
        added = max(0, index - self.acknowledged)
        self.acknowledged += added
        return added

    def record_poll(self) -> None:
        """Record that it was polled."""
        self.polls += 1

    # -- the end -----------------------------------------------------------------------------------

    def _end(self, ended_at: float | None = None) -> None:
        log, delivery = self.log, self.delivery
        before = log.next_index
        self._batch.cut()
        self.place = None
        log.close(self.state)
        now = delivery.record_end(has_new=log.next_index > before)
        self.ended_at = now if ended_at is None else ended_at
        delivery.deliver_to_all(now)
        delivery.mark_urgent()
        # From now on it takes little more memory than its text. Readers that have not been given
        # everything go on as before.
        log.fold(FoldedEntries(log.entries))
        self._batch = ENDED_BATCH
        self.figures.gaps = delivery.gaps.summary()

    def _fire(self, event: ResponseEvent) -> None:
        self.state = next_response_state(self.state, event)
