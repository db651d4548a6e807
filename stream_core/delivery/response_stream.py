"""A response in memory: tokens in, deltas into the log, readers moved by the delivery clock."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from sys import maxsize
from typing import Any, Literal, cast

from evenflow.stream_core.base.answer import HistoryBound, Usage, Via
from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.queue_place import BEGUN, QueuePlace
from evenflow.stream_core.bounds.shares import EIGHTH
from evenflow.stream_core.delivery.answer_figures import AnswerFigures
from evenflow.stream_core.delivery.answer_observer import AnswerObserver
from evenflow.stream_core.delivery.audience import AT_ONCE, Audience
from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS, DeliveryClock, slots_of
from evenflow.stream_core.delivery.delta_encoder import Encoder, SharedEncoder
from evenflow.stream_core.delivery.paced_cursor import Batcher, Reader
from evenflow.stream_core.delivery.presence import Listener, Presence, present_readers
from evenflow.stream_core.delivery.token_gaps import TokenGaps
from evenflow.stream_core.log.entries import (
    JOINING,
    OF_TOKENS,
    LogEntry,
    Part,
    Restart,
    same_place,
    size_of,
)
from evenflow.stream_core.log.folded_entries import FoldedEntries
from evenflow.stream_core.log.response_log import (
    LogClosed,
    ResponseEvent,
    ResponseLog,
    ResponseState,
    next_response_state,
    slice_of,
)

# The weight of the newest gap in a stream's pace. Three deltas later it counts less than half.
_PACE_SMOOTHING = 0.25
_END_EVENTS = {
    ResponseState.COMPLETED: ResponseEvent.COMPLETE,
    ResponseState.ERROR: ResponseEvent.FAIL,
    ResponseState.CANCELLED: ResponseEvent.CANCEL,
}
# Characters. Longer pieces are cut: a delta must fit into a frame and an item of any store.
_LONGEST_DELTA = 4_096
# Characters. A piece longer than the first counts as several tokens. Few tokens are longer than the
# second.
_LONGEST_PIECE, _LONGEST_TOKEN = 256, 16
_NONE_SHARED: Mapping[Hashable, SharedEncoder[Any]] = {}
_NO_TOKENS = Batcher(1)  # of all responses that have ended
_NO_PARTS: tuple[Part, ...] = ()
_NO_GAPS = TokenGaps(0)  # of all that have no tokens of their own


Cancelled = Literal["cancelled", "abandoned"]
"""Why a response was cancelled: a client asked for it, or nobody read it for the grace period."""
_REMEMBERED = (ResponseState.COMPLETED, ResponseState.ERROR)


class ResponseFull(Exception):
    """The response has reached its size limit. Its text is delivered, and it ends with `length`."""


class ResponseStream:
    """One response: a token source pushes tokens, the delivery clock delivers, readers come and go.

    A full batch is appended to the log at once, so that an index never stands for many tokens. It
    is still delivered with its interval, so a burst of the model is no burst on the screen. Parts
    are batched alike. Either text waits or parts of one place, never both.

    Args:
        monotonic: seconds, to measure when a delta is really delivered.
        kind: of the message. It says how long the interval is at least.
    """

    __slots__ = (
        "_allowed",
        "_ask_at",
        "_batcher",
        "_clock",
        "_delivered_at",
        "_due",
        "_encoders",
        "_full_at",
        "_held",
        "_interval",
        "_kept_tokens",
        "_limit",
        "_limits",
        "_longest_batched",
        "_monotonic",
        "_most_bytes",
        "_pace",
        "_scheduled",
        "_stored_bytes",
        "_tenant_interval",
        "_waits_at",
        "_window",
        "acknowledged",
        "attempt",
        "channel",
        "created_at",
        "cut_by",
        "degraded",
        "ended_at",
        "epoch",
        "error",
        "figures",
        "finish_reason",
        "first_delta_at",
        "gaps",
        "history_dropped",
        "history_dropped_by",
        "kept_index",
        "log",
        "message_id",
        "observer",
        "on_allowance",
        "on_first_delta",
        "on_pause",
        "on_unread",
        "on_urgent",
        "parked_at",
        "paused",
        "paused_readers",
        "place",
        "polls",
        "readers",
        "response_id",
        "signs_of_life",
        "state",
        "takes_back",
        "tokens",
        "uncounted",
        "unread_since",
        "usage",
        "via",
    )

    on_allowance: Callable[[], object] | None
    """Called when it has nearly as many tokens as it may have: `allow`, or `allow_no_more`."""
    cut_by: Literal["length", "budget"]
    """Why it ends if it takes no more tokens."""
    history_dropped_by: HistoryBound | None
    """The bound by which the model does not receive the oldest messages."""
    takes_back: bool
    """Whether text is shown before filters have cleared it, so that a restart withdraws it."""
    kept_index: int
    """The last index of the completed steps, which are never replaced. -1 without any."""

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
        self.log, self.state = ResponseLog(), ResponseState.QUEUED
        self.epoch = 1
        """The epoch of this task, where it is the response's owner."""
        self.via: Via = "owner"
        """Where the entries come from: this task, another one, or the store."""
        self.readers, self._monotonic = Audience(clock, monotonic), monotonic
        self.paused_readers = 0
        """How many readers pause. Readers change it themselves, and call `hold_or_release`."""
        self.paused = False
        """Whether the token source should not read its model."""
        self._stored_bytes: int | None = None
        self.parked_at: float | None = None
        """Since when the generation has no place, in seconds. None: it has one, or never had."""
        self.place: QueuePlace | None = None
        """Where it waits for the model, as readers were told. None: it doesn't, or not for long."""
        self.attempt, self.kept_index, self._kept_tokens = 1, -1, 0
        self.takes_back = False
        # Pieces that the model has given, in all attempts; those of them that are no tokens of the
        # answer that stands; and how often it has shown, without a token, that it is alive.
        self.tokens = self.uncounted = self.signs_of_life = 0
        # Whether a fallback took the model's place; whether tokens wait for a slot of the clock.
        self.degraded = self._scheduled = False
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.error: dict[str, Any] | None = None
        # How often it was polled; how many messages of its conversation the model is not told.
        self.polls = self.history_dropped = 0
        # The last index that a client has acknowledged.
        self.acknowledged = -1
        self.observer: AnswerObserver | None = None
        self.on_unread: Callable[[], None] | None = None
        """Called when the last reader leaves."""
        self.on_pause: Callable[[bool], None] | None = None
        """Called with whether all readers pause, where that may have changed."""
        self.on_first_delta: Callable[[], None] | None = None
        """Called at the first delta."""
        self.on_urgent: Callable[[], None] | None = None
        """Called when the log should be on record at once: at the first delta, and at the end."""
        # For its line in the log. `gaps` is the time between tokens, where this task gives them.
        self.figures, self.gaps = AnswerFigures(), _NO_GAPS
        self.created_at = monotonic()
        self.first_delta_at: float | None = None
        self.ended_at: float | None = None
        self.unread_since: float | None = self.created_at
        # What waits for the end of its interval: text, or parts of one place.
        self._batcher, self._held = Batcher(limits.batch_tokens), _NO_PARTS
        self._encoders: Mapping[Hashable, SharedEncoder[Any]] = _NONE_SHARED
        self._clock, self._tenant_interval = clock, clock.intervals.of(channel.tenant)
        self._most_bytes = self._full_at = limits.response_bytes
        self._limits, self._longest_batched = limits, _longest_batched(limits)
        self._window = slots_of(limits.window_ms(kind))
        # How many tokens it may have; when it asks for more, and when it waits for the reply.
        self._allowed = self._ask_at = self._waits_at = self._limit = maxsize
        self.on_allowance, self.cut_by, self.history_dropped_by = None, "length", None
        # Slots from one delivery to the next (0: it has not begun); the slot of the next one.
        self._interval = self._due = 0
        self._delivered_at = self._pace = 0.0

    @property
    def answer(self) -> tuple[bytes, ...]:
        """The text that stands, as pieces of UTF-8. Who keeps them needs no memory of its own,
        unless text was replaced or there are parts.
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
        """Take a token of the model. Never waits.

        Raises:
            ResponseFull: the response has reached its size limit. The model must stop.
            LogClosed: the response has ended, for example because it was cancelled.
        """
        if self.log.text_bytes >= self._full_at:
            raise ResponseFull
        if not token:
            return
        if len(token) > self._longest_batched:
            self._push_otherwise(token)
            return
        self.tokens += 1
        if self.tokens >= self._ask_at:
            self._near_allowed()
        if not self._scheduled and self._clock.position >= self._due:
            self._deliver(token)
            return
        if self.log.closed:
            raise LogClosed(
                "a token came after the end of its response; the log keeps what it held"
            )
        if self._batcher.add(token):
            self.log.append(self._batcher.cut())
            if not self.readers:
                self.hold_or_release()
        if not self._scheduled:
            self._scheduled = True
            self._clock.put(self, self._due)

    def push_part(self, part: Part) -> None:
        """Take a part of the model's answer. Never waits.

        Raises:
            NotAPart: a field of the part is not allowed.
            ResponseFull, LogClosed: as of `push`.
        """
        part.check()
        if self.log.text_bytes >= self._full_at:
            raise ResponseFull
        if self.log.closed:
            raise LogClosed("a part came after the end of its response; the log keeps what it held")
        if part.kind in JOINING and not part.text:
            return
        full_at = self._full_at  # the part at which a limit is reached is still taken whole
        self._count(part)
        if part.kind not in JOINING:
            self._cut()
            self.log.append_part(part)
            self._deliver_or_schedule()
        elif len(part.text) > _longest_batched(self._limits):
            append = partial(self._append_part, part)
            self._append_long(part.text, append, full_at)
        else:
            self._hold(part)
            self._deliver_or_schedule()

    def shorten(self) -> bool:
        """Take no more tokens: the response ends as one that has reached its size limit.

        Returns:
            Whether that changes anything.
        """
        changes, self._full_at = self._full_at > 0, 0
        return changes

    @property
    def is_full(self) -> bool:
        """Whether the next piece of the model raises `ResponseFull`."""
        return self.log.text_bytes >= self._full_at

    @property
    def counted(self) -> int:
        """The tokens of the current answer, by our own count, for bills and bounds."""
        return self.tokens - self.uncounted

    def limit(self, tokens: int) -> None:
        """End the response with `length` if a call of the model gives more than `tokens`.

        They are counted here, since the model's server may ignore its own limit. Of several limits
        the lowest one counts.
        """
        if tokens < self._limit:
            self._limit = tokens
            self._begin_limit()

    def _begin_limit(self) -> None:
        if self._limit < maxsize:
            self._allowed = self.tokens + self._limit
            # An answer of exactly this length may end by itself: only one more token exceeds it.
            self._ask_at = self._allowed + 1

    @property
    def allowance(self) -> int | None:
        """The tokens that were reserved for it by `allow`. None: no bound, or that of `limit`."""
        if self._limit < maxsize or self._allowed >= maxsize:
            return None
        return self._allowed - self.uncounted

    def allow(self, tokens: int, ask_at: int) -> None:
        """Allow it `tokens` in all. At `ask_at` tokens it asks for more, once.

        If there is no reply when it has all of them, the model pauses. Not to be used with `limit`.
        """
        self._allowed = self._waits_at = tokens + self.uncounted
        self._ask_at = ask_at + self.uncounted
        if self.tokens >= self._ask_at:
            self._near_allowed()
        if self.paused:
            self.hold_or_release()

    def allow_no_more(self) -> None:
        """Allow it no more than before. With all of that it ends with `budget`."""
        self._ask_at, self._waits_at = self._allowed, maxsize
        if self.tokens >= self._allowed:
            self._near_allowed()
        if self.paused:
            self.hold_or_release()

    def _near_allowed(self) -> None:
        if self._waits_at >= maxsize:
            self._full_at = 0
            self.cut_by = "length" if self._limit < maxsize else "budget"
            return
        if self._ask_at < self._waits_at:
            self._ask_at = self._waits_at
            if self.on_allowance is not None:
                self.on_allowance()
        if self.tokens >= self._waits_at:
            self.hold_or_release()

    def count_to(self, counted: int) -> None:
        """Set the counted tokens, with those that filters hold back."""
        self.tokens = counted + self.uncounted
        if self.tokens >= self._ask_at:
            self._near_allowed()

    def _count(self, part: Part) -> None:
        if part.kind in OF_TOKENS:
            self.tokens += tokens_in(part.text)
        else:
            self.tokens += 1
            self._discount(1)
        if self.tokens >= self._ask_at:
            self._near_allowed()

    def _discount(self, tokens: int) -> None:
        """Let tokens that were counted in `tokens` count to no bound and no bill."""
        self.uncounted += tokens
        self._allowed += tokens
        self._ask_at += tokens
        self._waits_at += tokens

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
                reader.start_again()

    def alive(self) -> None:
        """Note that the model is alive, without a token."""
        self.signs_of_life += 1

    def _hold(self, part: Part) -> None:
        """Put a part into the batch, which is cut where the part doesn't join what waits."""
        if not (self._held and same_place(self._held[0], part)):
            self._cut()
        self._held = (*self._held, part)
        self._longest_batched = 0  # the next text goes another way, and cuts the batch first
        if len(self._held) >= self._limits.batch_tokens:
            self._cut()

    def _push_otherwise(self, text: str) -> None:
        """Take a text that is too long for a batch, or comes behind parts."""
        if self.log.closed:
            raise LogClosed(
                "a token came after the end of its response; the log keeps what it held"
            )
        if self._held:
            self._cut()
        if len(text) <= self._longest_batched:
            self.push(text)
            return
        full_at = self._full_at
        self.tokens += tokens_in(text)
        if self.tokens >= self._ask_at:
            self._near_allowed()
        self._append_long(text, self.log.append, full_at)

    def _append_part(self, part: Part, text: str) -> None:
        self.log.append_part(part.with_text(text))

    def _append_long(self, text: str, append: Callable[[str], None], full_at: int) -> None:
        """Append a text that is too long for a batch. It becomes entries of its own."""
        self._cut()
        full = False
        for first in range(0, len(text), _LONGEST_DELTA):
            full = self.log.text_bytes >= full_at
            if full:
                break
            append(text[first : first + _LONGEST_DELTA])
        self._deliver_or_schedule()
        if full:
            raise ResponseFull

    def _cut(self) -> None:
        """Append what waits to the log."""
        if held := self._held:
            self._held = _NO_PARTS
            self._longest_batched = _longest_batched(self._limits)
            whole = "".join(part.text for part in held)
            self.log.append_part(held[0] if len(held) == 1 else held[0].with_text(whole))
        elif text := self._batcher.cut():
            self.log.append(text)

    def _drop_waiting(self) -> None:
        self._batcher.cut()
        self._held = _NO_PARTS
        self._longest_batched = _longest_batched(self._limits)

    def _deliver_or_schedule(self) -> None:
        """Deliver now if it is due, otherwise when it is."""
        if not self.readers:
            self.hold_or_release()
        if self._scheduled:
            return
        if self._clock.position >= self._due:
            self._cut()
            self._deliver("")
        else:
            self._scheduled = True
            self._clock.put(self, self._due)

    # -- what the generation does ------------------------------------------------------------------

    def start(self) -> None:
        """The response leaves the queue: its generation begins."""
        self._fire(ResponseEvent.START)
        self.figures.began_at = self._monotonic()

    def take_up(self, entries: Sequence[LogEntry], epoch: int, began_at: float | None) -> None:
        """Go on with the response of an earlier owner as its owner of `epoch`.

        The earlier text stands until `restart`.

        Args:
            entries: the log as it is on record.
            began_at: when the first delta came, in seconds on the monotonic clock.
        """
        self.log.extend(entries)
        self.epoch = epoch
        self.first_delta_at = began_at
        self._delivered_at = self._monotonic()
        self.gaps = TokenGaps(0)
        self.attempt = 1 + max(
            (entry.attempt for entry in entries if isinstance(entry, Restart)), default=1
        )
        replaced = self.log.text_bytes - sum(map(size_of, self.log.read(0).standing))
        self._full_at = self._most_bytes + replaced
        self.log.restart(self.log.next_index - 1, self.attempt, epoch)

    def next_attempt(self) -> None:
        """Begin another attempt after a failed one. The text delivered stands until `restart`."""
        self._fire(ResponseEvent.RESTART)
        self.attempt += 1
        self.figures.retries += 1

    def restart(self) -> None:
        """Replace what was delivered after `kept_index` by what this attempt gives from now on."""
        self._drop_waiting()
        # What was replaced doesn't count against the new text.
        kept = slice_of(self.log.entries[: self.kept_index + 1], 0).standing
        self._full_at = self.log.text_bytes + self._most_bytes - sum(map(size_of, kept))
        if self.log.next_index > self.kept_index + 1:
            self.log.restart(self.kept_index, self.attempt, withdraws=self.takes_back)
            self._deliver("")

    def discount_attempt(self) -> None:
        """Stop counting the tokens of the attempt before, which are replaced."""
        self._discount(self.counted - self._kept_tokens)
        if self.paused:
            self.hold_or_release()

    def keep(self, index: int) -> None:
        """Keep all up to `index`, a step of the model. Its next call has a limit of its own."""
        self.kept_index, self._kept_tokens = index, self.counted
        self._begin_limit()

    def add_result(self, part: Part) -> None:
        """Append the result of a client's tool. It is delivered and stored at once.

        Raises:
            LogClosed: the response has ended.
        """
        self._cut()
        self.log.append_part(part)
        self._call_readers(self._monotonic())
        if self.on_urgent is not None:
            self.on_urgent()

    def begin_step(self) -> None:
        """Begin the next step with its first token. The time before it was no gap: tools ran."""
        now = self._monotonic()
        self._delivered_at = now - max(self._interval * SLOT_SECONDS, self._pace)
        self.gaps.paused_at = now

    def substitute(self, text: str) -> None:
        """Use a fallback in the model's place: the response is degraded. `complete` delivers it."""
        self.degraded = True
        self._cut()
        self._batcher.add(text)

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
        """Cancel the response: a client asked for it, or nobody reads. The text delivered stays."""
        self._fire(ResponseEvent.CANCEL)
        self.finish_reason = finish_reason
        self._end()

    def take_gaps(self) -> TokenGaps:
        """The time between its tokens. It gives them away: an ended response has many like it."""
        taken, self.gaps = self.gaps, _NO_GAPS
        return taken

    def settle(self) -> None:
        """Deliver what has come so far. Another owner goes on from there."""
        before = self.log.next_index
        self._cut()
        if self.log.next_index > before:
            self._deliver("")

    def lose(self) -> None:
        """Give this copy up: its readers find the response again and resume."""
        self._drop_waiting()
        for reader in tuple(self.readers):
            reader.lost()
        if self.readers.presence is not None:
            self.readers.presence.lost()

    def park(self) -> None:
        """Give the place up: the token source pauses until `unpark`."""
        self.parked_at = self._monotonic()
        self.paused = True

    def note_stored(self, text_bytes: int) -> None:
        """Note how many UTF-8 bytes of the log's text the store has.

        An answer that nobody reads waits for the store.
        """
        self._stored_bytes = text_bytes
        if self.paused:
            self.hold_or_release()

    def unpark(self) -> None:
        """Go on: there is a place again."""
        self.parked_at = None
        self.hold_or_release()

    def tell_place(self, place: QueuePlace) -> None:
        """Tell all readers where it waits for the model, if that has changed.

        Other tasks are told in any case: they take an owner that says nothing for lost.
        """
        changed, self.place = place != self.place, place
        for reader in [*self.readers]:
            if changed or reader.user is None:
                reader.queued(place)

    def leave_queue(self) -> None:
        """It waits for the model no more. Clients hear that from its text."""
        if self.place is not None:
            self.place = None
            for reader in [*self.readers]:
                if reader.user is None:
                    reader.queued(BEGUN)

    # -- what follows another copy -----------------------------------------------------------------

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
        now = self._monotonic()
        if self.first_delta_at is None:
            self.first_delta_at = now
        self._call_readers(now)

    def end_like(
        self,
        state: ResponseState,
        *,
        finish_reason: str | None = None,
        usage: Usage | None = None,
        error: dict[str, Any] | None = None,
        degraded: bool = False,
    ) -> None:
        """End in the terminal state of the copy that this one follows.

        Raises:
            LogClosed: the response has ended.
        """
        if self.log.closed:
            raise LogClosed("an end came after the end of its response; the first one stands")
        if self.state is ResponseState.QUEUED and state is ResponseState.COMPLETED:
            self.start()
        self._fire(_END_EVENTS[state])
        self.finish_reason, self.usage, self.error, self.degraded = (
            finish_reason,
            usage,
            error,
            degraded,
        )
        self._end()

    # -- what readers do ---------------------------------------------------------------------------

    def check_readers(self, *, shared: bool = False) -> None:
        """Check that one more reader may be attached.

        Args:
            shared: whether it comes by a share. An eighth of the places is for other readers.

        Raises:
            RateLimited: the response has as many as allowed.
        """
        most = self._limits.readers_per_response
        if len(self.readers) >= most - (most // EIGHTH if shared else 0):
            raise RateLimited(
                "this response has as many readers as it may have; close one and ask again",
                code="response_readers",
                retry_after_ms=1000,
            )

    def encoder(self, key: Hashable, make: Callable[[], Encoder]) -> Encoder:
        """The encoder for one more reader. Readers with the same key share one.

        Args:
            key: of all encoders that write the same bytes.
            make: makes one.
        """
        if not self.readers:
            return make()  # most responses have one reader: it needs no sharing
        if key not in self._encoders:
            self._encoders = {**self._encoders, key: SharedEncoder(make())}
        return cast("Encoder", self._encoders[key])  # it writes the same

    def attach(self, reader: Reader) -> None:
        """Add a reader, and deliver at once what it has not been given."""
        now = self._monotonic()
        self.readers[reader] = now
        self.unread_since = None
        if self.observer is not None:
            self.observer.attached(reader)
        if self.readers.presence is not None:
            self.readers.presence.changed()
        self.hold_or_release()
        reader.deliver(now, None)
        if self.place is not None:
            reader.queued(self.place)

    def detach(self, reader: Reader) -> None:
        """Remove a reader. When the last one leaves, the grace period begins."""
        if reader in self.readers:
            del self.readers[reader]
            if self.observer is not None:
                self.observer.detached(reader)
            if self.readers.presence is not None:
                self.readers.presence.changed()
            self.hold_or_release()
            if not self.readers:
                self.readers.clear()  # gives its memory back
                self.unread_since = self._monotonic()
                if self.on_unread is not None:
                    self.on_unread()

    def listen(self, listener: Listener) -> None:
        """Tell a listener who reads this copy, now and on each change."""
        if self.readers.presence is None:
            self.readers.presence = Presence(
                self.response_id,
                partial(present_readers, self.readers),
                self._clock,
                self._monotonic,
            )
        self.readers.presence.listen(listener)

    def acknowledge(self, index: int) -> int:
        """Note that a client has everything up to `index`. Returns how many deltas that adds."""
        added = max(0, index - self.acknowledged)
        self.acknowledged += added
        return added

    # -- what the clock does -----------------------------------------------------------------------

    def on_due(self, slot: int) -> None:
        """The interval has passed: cut the batch and deliver it."""
        if slot < self._due:
            # Something was delivered since this slot was taken: the marker of a restart.
            self._clock.put(self, self._due)
            return
        self._scheduled = False
        if not self.log.closed:
            if self._held:
                self._cut()
            self._deliver(self._batcher.cut())

    def hold_or_release(self) -> None:
        """Set `paused`: all readers pause, and the log is the pause window ahead of each; or nobody
        reads, and it is the pause window ahead of the store.
        """
        all_pause = 0 < self.paused_readers >= len(self.readers) and all(
            reader.holds_model for reader in self.readers
        )
        self.paused = (
            all_pause
            or self._is_ahead_unread
            or self.parked_at is not None
            or self.tokens >= self._waits_at
        )
        if self.paused:
            self.gaps.paused_at = self._monotonic()
        if self.on_pause is not None:
            self.on_pause(all_pause)

    @property
    def _is_ahead_unread(self) -> bool:
        stored = self._stored_bytes
        return (
            stored is not None
            and not self.readers
            and self.log.text_bytes - stored > self._limits.pause_window_bytes
        )

    def _deliver(self, text: str) -> None:
        clock = self._clock
        if text:
            self.log.append(text)
        now = self._monotonic()
        interval, readers = self._tenant_interval.slots, self.readers
        crowded = len(readers) > AT_ONCE
        window = clock.usual_slots if crowded else self._window
        if interval < window:  # noqa: PLR1730 - a call costs more
            interval = window
        if self.first_delta_at is None:
            self.first_delta_at = now
            jitter = None
            self.gaps = TokenGaps(self.tokens)
        else:
            gap, pace = now - self._delivered_at, self._pace
            self.gaps.record(gap, self.tokens, now)
            due = self._interval * SLOT_SECONDS
            # The stream's current interval is its own, or the model's recent pace where that is
            # slower.
            jitter = abs(gap - due) if due > pace else abs(gap - pace)
            self._pace = pace + (gap - pace) * _PACE_SMOOTHING
        self._delivered_at = now
        self._due = clock.position + interval
        if interval != self._interval:
            self._change_interval(interval)
        if crowded:
            expected = None if jitter is None else max(due, self._pace)
            readers.call_many(interval, expected)
        else:
            for reader in [*readers]:  # one that finds its socket closed leaves
                reader.deliver(now, jitter)
        if jitter is None:
            self._begun()
        if self.paused_readers or not readers:
            self.hold_or_release()

    def _begun(self) -> None:
        """The first delta was delivered."""
        if self.on_urgent is not None:
            self.on_urgent()
        if self.on_first_delta is not None:
            self.on_first_delta()

    def _change_interval(self, interval: int) -> None:
        """Take up another interval, at a slot apart from the streams that do so now."""
        due = self._clock.spread(self._interval, interval)
        # The next gap is shorter by so much, which is no jitter.
        self._delivered_at -= (self._due - due) * SLOT_SECONDS
        self._due = due
        self._interval = interval

    def _call_readers(self, now: float) -> None:
        """Give all readers what has no due time."""
        if len(self.readers) > AT_ONCE:
            slots = max(self._tenant_interval.slots, self._clock.usual_slots)
            self.readers.call_many(slots, None)
            return
        for reader in [*self.readers]:
            reader.deliver(now, None)

    def _end(self) -> None:
        before = self.log.next_index
        self._cut()
        self.place = None
        self.log.close(self.state)
        now = self._monotonic()
        if self.first_delta_at is None:
            self.first_delta_at = now
        elif self.log.next_index > before:
            self.gaps.record(now - self._delivered_at, self.tokens, now)
        self.ended_at = now
        self._call_readers(now)
        if self.on_urgent is not None:
            self.on_urgent()
        # From now on it takes little more memory than its text. Readers that have not been given
        # everything go on as before.
        self.log.fold(FoldedEntries(self.log.entries))
        self._batcher = _NO_TOKENS
        self.figures.gaps = self.gaps.summary()

    def _fire(self, event: ResponseEvent) -> None:
        self.state = next_response_state(self.state, event)


def _longest_batched(limits: Limits) -> int:
    """Characters of the longest piece that is batched: it is one token, and a delta has a limit."""
    return max(1, min(_LONGEST_PIECE, _LONGEST_DELTA // limits.batch_tokens))


def tokens_in(piece: str) -> int:
    """The tokens for which a model's piece counts: one, unless it is long."""
    return 1 if len(piece) <= _LONGEST_PIECE else len(piece) // _LONGEST_TOKEN
