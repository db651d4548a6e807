"""Generates and ends one response, with attempts, deadlines, fallback and cancellation."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable

from fargate_handler.background import Background
from fargate_handler.filters.content_filters import ContentFilters
from fargate_handler.filters.filtering_sink import ContentFiltered, FilterFailed
from fargate_handler.orchestrator.attempt import (
    FirstTokenSink,
    ModelWatch,
    ReplacingSink,
    SpokenRefusals,
    tell,
    upstream_unavailable,
)
from fargate_handler.orchestrator.whole_request import WholeRequest, caller_of
from fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink, TokenSource
from stream_core.delivery.delivery_clock import DeliveryClock
from stream_core.fairness.fair_queue import Line
from stream_core.fairness.prefills import Prefills
from stream_core.fairness.token_counters import AnswerMeter
from stream_core.log.entries import NotAPart
from stream_core.log.response_stream import ResponseFull, ResponseStream
from stream_core.policy.adaptive_ceiling import AdaptiveCeiling
from stream_core.policy.channel import MessageKind
from stream_core.policy.circuit_breaker import Call, CircuitBreaker, CircuitOpen
from stream_core.policy.limits import Limits
from stream_core.protocol.errors import (
    EvenflowError,
    InternalError,
    ModelRefused,
    Overloaded,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreadable,
    is_over_quota,
)

_logger = logging.getLogger(__name__)

# How often to look for signs of life. Deadlines and the end of the grace have slots of their own.
_LOOK_SECONDS = 3.0
_LEASE_LOOK_SECONDS = 0.1
_RETRY_PAUSE_SECONDS = (0.05, 0.25)
# After a longer throttle there is no retry, and the reader is told when to ask again.
_LONGEST_RETRY_PAUSE_SECONDS = 20.0
_LATE_AT_MOST = 1.2
_QUEUE_RETRY_AFTER_MS = 5_000


class Generation:
    """Generates one response.

    Args:
        stream: takes the tokens. It is closed when the generation has ended.
        kind: the kind of the message.
        line: where it waits for a place.
        wanted_by: when its first token is wanted, in seconds. None: when it can.
        input_tokens: how many the request has, as they are estimated.
        asked: the request to the model.
        breaker: of the upstream that the model is.
        ceiling: how many calls that takes at once.
        prefills: the answers of that model that have no token yet.
        grace_seconds: without a reader for so long, the response is cancelled.
        fallback_text: the answer if all attempts failed and nothing was delivered. Empty: the
            error.
        continues: whether the source can continue what was delivered, when it is asked this.
        in_force: whether this task may end the response. Until it may, the end waits.
        wait_again: gives the place up, and waits for another one.
        on_attempt: called at the beginning of each attempt after the first.
        on_failure: called with the error of each attempt that failed.
        on_end: called once, after the response has ended or was abandoned and the model is closed.
        filters: stand before the response's log. None: there are none.
    """

    def __init__(
        self,
        *,
        stream: ResponseStream,
        kind: MessageKind,
        line: Line,
        asked: WholeRequest,
        source: TokenSource,
        breaker: CircuitBreaker,
        ceiling: AdaptiveCeiling,
        prefills: Prefills,
        clock: DeliveryClock,
        limits: Limits,
        grace_seconds: float,
        fallback_text: str,
        continues: Callable[[WholeRequest], bool],
        monotonic: Callable[[], float],
        in_force: Callable[[], bool],
        wait_again: Callable[[Generation], None],
        on_attempt: Callable[[], None],
        on_failure: Callable[[EvenflowError], None],
        on_end: Callable[[Generation], None],
        wanted_by: float | None = None,
        input_tokens: int = 1,
        filters: ContentFilters | None = None,
    ) -> None:
        self.stream = stream
        self.kind = kind
        self.line = line
        self.wanted_by = wanted_by
        self.meter = AnswerMeter(input_tokens)
        self.keeps_place_until = 0.0
        """Until when its place isn't taken for more urgent ones, in seconds."""
        self.waits_since: float | None = stream.created_at
        """Since when it waits for a place, in seconds. None: it has one, or needs none."""
        self.ceiling = ceiling
        self.prefills = prefills
        self._asked = asked
        self._source = source
        self._breaker = breaker
        self._clock = clock
        self._limits = limits
        self._grace = grace_seconds
        self._fallback_text = fallback_text
        self._continues = continues
        self._monotonic = monotonic
        self._in_force = in_force
        self._wait_again = wait_again
        self._on_attempt = on_attempt
        self._on_failure = on_failure
        self._on_end = on_end
        self._filters = filters
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        self._abandoned = False
        self._attempt: asyncio.Task[ModelFinish] | None = None
        self._call: Call | None = None
        self._overdue: UpstreamTimeout | None = None
        self._watch = ModelWatch(stream, limits, monotonic())
        # A response that was taken over has a beginning.
        self._prefix = stream.log.text if continues(asked) else ""
        self._tokens_before = 0
        self._last_attempt = stream.attempt + limits.model_retries
        # The refusal for want of quota that it waits after, and since when there are refusals.
        self._throttled: EvenflowError | None = None
        self._throttled_since: float | None = None
        self._turn: asyncio.Future[None] | None = None
        stream.on_unread = self._look_again
        self._look_slot = clock.put_after(self, self._next_look(monotonic()))

    @property
    def begun(self) -> bool:
        """Whether it was started. It may wait for a place again."""
        return self._task is not None

    @property
    def abandoned(self) -> bool:
        """Whether another task goes on with the response."""
        return self._abandoned

    def start(self, background: Background) -> None:
        """Begin: there is a place. `background` owns the task."""
        self.waits_since = None
        self._watch = ModelWatch(self.stream, self._limits, self._monotonic())
        self.stream.start()
        if self.stream.observer is not None:
            self.stream.observer.started()
        self._task = background.run(self._run())

    def go_on(self) -> None:
        """Go on: there is a place again."""
        self.waits_since = None
        self.stream.unpark()
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def cancel(self) -> None:
        """Cancel the response now, and stop the model. Changes nothing after the end."""
        if self._over:
            return
        self.stream.cancel()
        self._stop()

    def interrupt(self, error: EvenflowError) -> None:
        """End the response with `error` now, and stop the model."""
        if self._over:
            return
        self.stream.fail(error.to_object())
        self._stop()

    def abandon(self) -> None:
        """Stop the model, and leave the response to another task."""
        if self._over:
            return
        self._abandoned = True
        self._stop()

    def _stop(self) -> None:
        if self._task is None:
            self._end()
        elif self._begun:
            self._task.cancel()
        # A task that has not begun will find its response ended. If it were cancelled, its
        # `finally` would not run.

    def _end(self) -> None:
        # The clock has this object until its next look, seconds later: not with a request of
        # megabytes.
        self._asked = WholeRequest(())
        self.stream.on_unread = None
        self._on_end(self)
        if self.stream.observer is not None:
            self.stream.observer.generated()

    # -- attempts ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        self._begun = True
        try:
            if not self._over:
                await self._attempts()
        except asyncio.CancelledError:
            # After cancel(), interrupt() and abandon() nothing is left to do. Otherwise the process
            # ends.
            if not self._over:
                self.stream.cancel()
        finally:
            self._end()

    async def _attempts(self) -> None:
        """Try until an attempt completes the stream, or none is left."""
        while True:
            outcome = await self._call_upstream()
            if self._over:
                return  # it was cancelled meanwhile, and this is the source's answer to that
            if self._waits_for_quota(outcome):
                await self._next_turn()
                continue
            while not self._in_force():  # noqa: ASYNC110 - rare, and takes seconds
                await asyncio.sleep(_LEASE_LOOK_SECONDS)
            if not isinstance(outcome, ModelFinish):
                self.stream.settle()
                if self._is_late and self._delivered:
                    outcome = ModelFinish("length", None)
            if isinstance(outcome, ModelFinish):
                self.stream.complete(outcome.finish_reason, outcome.usage)
                return
            if not self._is_tried_again(outcome):
                self._give_up(outcome)
                return
            await asyncio.sleep(_pause_before_retry(outcome))
            # If a continued attempt gave nothing, another one would hardly get further.
            went_on = self.stream.tokens > self._tokens_before
            self._prefix = self.stream.log.text if went_on and self._continues(self._asked) else ""
            self._on_attempt()
            self.stream.next_attempt()

    def _is_tried_again(self, error: EvenflowError) -> bool:
        if (
            isinstance(error, ModelRefused | UpstreamRejected | FilterFailed)
            or self.stream.attempt >= self._last_attempt
            or self._breaker.refuses_for(self._monotonic()) > 0
        ):
            return False
        sender_repeats = not self.kind.repeatable  # with a key, repeating gives the same error
        if isinstance(error, UpstreamAnswered) and sender_repeats and not self._delivered:
            return False
        pause = (error.retry_after_ms or 0) / 1000
        # An attempt after the deadline would only cost money.
        return pause <= _LONGEST_RETRY_PAUSE_SECONDS and not self._watch.is_over(
            self._monotonic() + pause
        )

    def _waits_for_quota(self, outcome: ModelFinish | EvenflowError) -> bool:
        """Whether to wait in the queue until the model's server takes calls again."""
        now, gave_tokens = self._monotonic(), self.stream.tokens > self._tokens_before
        sender_repeats = not self.kind.repeatable
        if (
            isinstance(outcome, ModelFinish)
            or sender_repeats
            or gave_tokens
            or not is_over_quota(outcome)
        ):
            self._throttled = self._throttled_since = None
            return False
        self._throttled = outcome
        if self._throttled_since is None:
            self._throttled_since = now
        pause = (outcome.retry_after_ms or 0) / 1000
        begins_at = now + pause
        return (
            pause <= _LONGEST_RETRY_PAUSE_SECONDS
            and begins_at < self._throttled_since + self._limits.queue_deadline_seconds
            and not self._watch.is_over(begins_at)
        )

    async def _next_turn(self) -> None:
        """Give the place up, and wait for another one."""
        self.waits_since = self._throttled_since
        self._turn = asyncio.get_running_loop().create_future()
        self._wait_again(self)
        self._look_slot = self._clock.put_after(self, self._next_look(self._monotonic()))
        await self._turn
        self._turn = None
        # The server has given nothing: that costs none of the attempts.
        self._last_attempt += 1
        self.stream.next_attempt()

    @property
    def _is_late(self) -> bool:
        return self._watch.is_over(self._monotonic())

    @property
    def _delivered(self) -> bool:
        """Whether anything stands of what the model gave: text, or reasoning alone."""
        return bool(self.stream.log.read(0).contents)

    @property
    def _over(self) -> bool:
        return self._abandoned or self.stream.state.terminal

    async def _call_upstream(self) -> ModelFinish | EvenflowError:
        """Make one attempt, unless the upstream has failed too often. Returns how it ended."""
        try:
            call = self._call = self._breaker.call(self._monotonic())
        except CircuitOpen as refused:
            return upstream_unavailable(
                refused.seconds, "what was delivered was kept, ask again then"
            )
        try:
            outcome = await self._outcome()
            # After a cancel it is the source's answer to that. A deadline is the request's.
            if not self._over and (isinstance(outcome, ModelFinish) or not self._is_late):
                gave_tokens = self.stream.tokens > self._tokens_before
                tell(call, outcome, self._monotonic(), gave_tokens=gave_tokens)
            if isinstance(outcome, ModelFinish):
                self.ceiling.answered()
            elif not self._over:
                self._on_failure(outcome)
                if is_over_quota(outcome):
                    after = outcome.retry_after_ms
                    self.ceiling.throttled(
                        self._monotonic(), None if after is None else after / 1000
                    )
            return outcome
        finally:
            self._call = None
            call.withdrawn(self._monotonic())

    async def _outcome(self) -> ModelFinish | EvenflowError:
        """Make one attempt. Returns how it ended."""
        try:
            return await self._try()
        except ResponseFull:
            return ModelFinish(self.stream.cut_by, None)
        except ContentFiltered:
            return ModelFinish("content_filter", None)
        except EvenflowError as error:
            # The error's frames refer to this response, and it refers to them: that would leave a
            # cycle.
            _drop_frames(error)
            return error
        except NotAPart as wrong:
            _logger.error("the token source gave what is no part of an answer: %s", wrong)
            return UpstreamUnreadable(
                f"the model's answer can't be read ({wrong}); what came before was kept",
                code="upstream_failed",
            )
        except Exception as error:
            _logger.exception("the token source failed with an unknown error")
            _drop_frames(error)
            return InternalError(
                "the model's connector failed; what was delivered was kept", code="internal_error"
            )

    async def _try(self) -> ModelFinish:
        now, stream = self._monotonic(), self.stream
        self._watch.begin(now)
        self._tokens_before = stream.tokens
        self._overdue = None
        replaces = not self._prefix and self._delivered
        sink: TokenSink = ReplacingSink(stream) if replaces else stream
        if stream.observer is not None and stream.epoch > 1:
            # Its first delta came at another task, so the response doesn't tell.
            sink = FirstTokenSink(sink, stream.observer.first_token)
        filtered = None
        if self._filters is not None:
            standing = () if replaces else stream.log.read(0).standing
            filtered = self._filters.of(stream, self.kind, sink, standing)
            sink = sink if filtered is None else filtered.sink
        spoken = None if self.kind.brings_conversation else SpokenRefusals(sink)
        generating = self._source.generate(self._request(), spoken or sink)
        if filtered is not None:
            generating = filtered.finish_of(generating)
        self._attempt = asyncio.get_running_loop().create_task(generating)
        self._look_slot = self._clock.put_after(self, self._next_look(now))
        try:
            finish = await self._attempt
        except asyncio.CancelledError:
            if self._overdue is not None and not self._over:
                raise self._overdue from None
            raise
        finally:
            self._attempt.cancel()
            self._attempt = None
        if replaces and stream.tokens == self._tokens_before:
            raise UpstreamFailed(
                "the model began again and said nothing; what was delivered before was kept",
                code="upstream_failed",
            )
        return finish if spoken is None else spoken.finish(finish)

    def _request(self) -> ModelRequest:
        stream, asked, observer = self.stream, self._asked, self.stream.observer
        return ModelRequest(
            stream.channel.agent,
            asked.turns,
            stream.attempt,
            self._prefix,
            f"{stream.response_id}:{stream.epoch}:{stream.attempt}",
            asked.options,
            model=asked.model,
            caller=caller_of(self.kind, stream.channel, stream.message_id, asked),
            traceparent=asked.traceparent if observer is None else observer.traceparent,
            on_quota_used=lambda seconds: self.ceiling.pause(self._monotonic(), seconds),
        )

    def _give_up(self, error: EvenflowError) -> None:
        if isinstance(error, ModelRefused) or not self._fallback_text or self._delivered:
            self.stream.fail(error.to_object())
            return
        self.stream.error = error.to_object()
        self.stream.substitute(self._fallback_text)
        self.stream.complete("stop", None)

    # -- timers ------------------------------------------------------------------------------------

    def on_due(self, slot: int) -> None:
        """Check the grace period and the deadlines."""
        stream = self.stream
        if slot != self._look_slot or self._over:
            return
        now = self._monotonic()
        if self._call is not None and stream.tokens > self._tokens_before:
            self._call.answers()
        if stream.unread_since is not None and now - stream.unread_since >= self._grace:
            self.cancel()
            return
        if now >= self._place_by and self._in_force():
            self.interrupt(self._waited_too_long())
            return
        if self._attempt is not None and self._overdue is None:
            self._overdue = self._watch.look(now)
            if self._overdue is not None:
                self._attempt.cancel()
        self._look_slot = self._clock.put_after(self, self._next_look(now))

    def _look_again(self) -> None:
        """Nobody reads any more: look when the grace period ends."""
        seconds = min(self._grace, self._next_look(self._monotonic()))
        self._look_slot = self._clock.put_after(self, seconds)

    def _waited_too_long(self) -> EvenflowError:
        if self._throttled is not None:
            return self._throttled
        seconds = f"{self._limits.queue_deadline_seconds:g} s"
        return Overloaded(
            f"no model was free to go on with this answer within {seconds}; what was delivered was "
            "kept, ask again"
            if self.begun
            else f"no model was free for this message within {seconds}; nothing was generated, "
            "send it again as a new one",
            code="queue_timeout",
            retry_after_ms=_QUEUE_RETRY_AFTER_MS,
        )

    @property
    def _place_by(self) -> float:
        if self.waits_since is None:
            return math.inf
        return self.waits_since + self._limits.queue_deadline_seconds

    def _next_look(self, now: float) -> float:
        times = [
            now + _LOOK_SECONDS,
            self._watch.due if self.waits_since is None else self._place_by,
        ]
        if self.stream.unread_since is not None:
            times.append(self.stream.unread_since + self._grace)
        return max(0.0, min(time for time in times if time > now) - now)


def _pause_before_retry(error: EvenflowError) -> float:
    if error.retry_after_ms is None:
        return random.uniform(*_RETRY_PAUSE_SECONDS)
    # A server that throttles says when to try again: not before, and not all at once.
    return error.retry_after_ms / 1000 * random.uniform(1.0, _LATE_AT_MOST)


def _drop_frames(error: BaseException) -> None:
    """Drop the frames of an error and of its causes."""
    chain: list[BaseException | None] = [error]
    while chain:
        failed = chain.pop()
        if failed is not None and failed.__traceback__ is not None:
            failed.__traceback__ = None
            chain += [failed.__cause__, failed.__context__]
