"""Generates and ends one response, with attempts, deadlines, fallback and cancellation."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from evenflow.fargate_handler.filters.content_filters import ContentFilters
from evenflow.fargate_handler.orchestrator.answer_calls import AnswerCalls
from evenflow.fargate_handler.orchestrator.client_tools import ClientTools, call_not_open
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.fargate_handler.orchestrator.retry_policy import RetryPolicy, pause_before_retry
from evenflow.fargate_handler.orchestrator.upstream import Upstream
from evenflow.fargate_handler.runtime.background import Background
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.channel import MessageKind
from evenflow.stream_core.base.errors import (
    EvenflowError,
    ModelRefused,
    Overloaded,
    UpstreamExplained,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock
from evenflow.stream_core.delivery.response_stream import Cancelled, ResponseStream
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.queue.token_counters import AnswerMeter
from evenflow.stream_core.upstream.circuit_breaker import SenderKey

# How often to look for signs of life. Deadlines and the end of the grace have slots of their own.
_LOOK_SECONDS = 3.0
# A look that is later than this was late because the node was starved or stopped.
_LATE_SECONDS = 1.0
_LEASE_LOOK_SECONDS = 0.1
_QUEUE_RETRY_AFTER_MS = 5_000
# Finish reasons with which a model's calls are complete. With any other they may be cut.
_CALLING = ("tool_calls", "stop")


async def _without_budget(_input_tokens: int) -> bool:
    """Every call fits into the budget."""
    return True


class Generation:
    """Generates one response.

    Args:
        stream: takes the tokens. It is closed when the generation has ended.
        kind: the kind of the message.
        line: the line of the queue in which it waits for a slot.
        first_token_deadline: in seconds. None: it has none.
        input_tokens: the estimated tokens of the request.
        request: the request to the model.
        upstream: the model.
        grace_seconds: how long it goes on without a reader. Infinity: to its end.
        fallback_text: the answer if all attempts failed and nothing was delivered. Empty: the
            error.
        continues: whether the source can continue the delivered answer of a request.
        in_force: whether this node may end the response. Until it may, the end waits.
        requeue: releases the slot, and queues the generation again.
        wait_for_tools: releases the slot while the client runs tools.
        on_retry: called at the beginning of each attempt after the first.
        on_failure: called with the error of each attempt that failed.
        on_end: called once, when the response has ended or was handed over and its model is closed.
        reserve_call: reserves the cost of one more call of the model, by its input tokens. Returns
            whether it fits into the budget.
        may_call_again: whether the model may be called again for an answer that broke off.
        filters: filter what goes into the response's log. None: there are none.
    """

    def __init__(
        self,
        *,
        stream: ResponseStream,
        kind: MessageKind,
        line: Line,
        request: WholeRequest,
        upstream: Upstream,
        clock: DeliveryClock,
        limits: Limits,
        grace_seconds: float,
        fallback_text: str,
        continues: Callable[[WholeRequest], bool],
        monotonic: Callable[[], float],
        in_force: Callable[[], bool],
        requeue: Callable[[Generation], None],
        wait_for_tools: Callable[[Generation], None],
        on_retry: Callable[[], None],
        on_failure: Callable[[EvenflowError], None],
        on_end: Callable[[Generation], None],
        first_token_deadline: float | None = None,
        input_tokens: int = 1,
        may_call_again: bool = True,
        filters: ContentFilters | None = None,
        reserve_call: Callable[[int], Awaitable[bool]] = _without_budget,
    ) -> None:
        self.stream = stream
        self.kind = kind
        self.line = line
        self.first_token_deadline = first_token_deadline
        self.meter = AnswerMeter(input_tokens)
        self.keeps_slot_until = 0.0
        """The time before which more urgent generations cannot preempt it, in seconds."""
        self.waits_since: float | None = stream.created_at
        """The time since which it waits for a slot, in seconds. None: it does not wait."""
        self.upstream = upstream
        self._clock = clock
        self._limits = limits
        self._grace = grace_seconds
        self._fallback_text = fallback_text
        self._monotonic = monotonic
        self._in_force = in_force
        self._requeue = requeue
        self._wait_for_tools = wait_for_tools
        self._on_retry = on_retry
        self._on_end = on_end
        self.sender_key = sender_key(line, request.user)
        """The sender, as the circuit breaker and the backoff know it. `Line.sender` is wider."""
        self._task: asyncio.Task[None] | None = None
        self._run_entered = False
        self._is_handed_over = False
        self._calls = AnswerCalls(
            stream=stream,
            kind=kind,
            request=request,
            upstream=upstream,
            limits=limits,
            continues=continues,
            monotonic=monotonic,
            filters=filters,
            on_failure=on_failure,
            sender=self.sender_key,
        )
        self._tools = ClientTools(stream)
        self._reserve_call, self._is_over_budget = reserve_call, False
        self._retries = RetryPolicy(
            stream,
            kind,
            self._calls,
            upstream,
            sender=self.sender_key,
            limits=limits,
            may_call_again=may_call_again,
            monotonic=monotonic,
        )
        self._slot_granted: asyncio.Future[None] | None = None
        self._looked_at = monotonic()
        stream.readers.set_on_unread(self._look_at_grace_end)
        self._look_later()

    @property
    def is_started(self) -> bool:
        """Whether it was started. It may wait for a slot again."""
        return self._task is not None

    @property
    def is_handed_over(self) -> bool:
        """Whether it was left to another node."""
        return self._is_handed_over

    @property
    def not_before(self) -> float:
        """The time before which it may not start, since its model's server throttles. Seconds."""
        if self.kind.is_told_at_once:
            return self._calls.not_before  # its sender decides when to ask again
        backoff = self.upstream.limiter.backoff
        return max(self._calls.not_before, backoff.sender_paused_until(self.sender_key))

    def start(self, background: Background) -> None:
        """Begin: it has a slot. `background` owns the task."""
        self.waits_since = None
        self._calls.start()
        self.stream.start()
        if self.stream.observer is not None:
            self.stream.observer.started()
        self._task = background.run(self._run())

    def on_slot(self) -> None:
        """Continue: it has a slot again."""
        self.waits_since = None
        self.stream.backpressure.unpark()
        if self._slot_granted is not None and not self._slot_granted.done():
            self._slot_granted.set_result(None)

    @property
    def needs_reader(self) -> bool:
        """Whether the response is cancelled after a long time without a reader."""
        return self._grace < math.inf

    def cancel(self, finish_reason: Cancelled = "cancelled") -> None:
        """Cancel the response now, and stop the model. Changes nothing after the end."""
        if self._is_over:
            return
        self.stream.cancel(finish_reason)
        self._stop()

    def take_result(self, call_id: str, text: str) -> None:
        """Add the result of a call from the client. A repeated one changes nothing.

        Raises:
            Conflict: the call is not open.
        """
        if not self._calls.has_client_tools:
            raise call_not_open(call_id)
        self._tools.add(call_id, text)

    def fail(self, error: EvenflowError) -> None:
        """End the response with `error` now, and stop the model."""
        if self._is_over:
            return
        self.stream.fail(error.to_object())
        self._stop()

    def hand_over(self) -> None:
        """Stop the model, and leave the response to another node."""
        if self._is_over:
            return
        self._is_handed_over = True
        self._stop()

    def _stop(self) -> None:
        if self._task is None:
            self._end()
        elif self._run_entered:
            self._task.cancel()
        # A task that has not begun will find its response ended. If it were cancelled, its
        # `finally` would not run.

    def _end(self) -> None:
        # The clock keeps this object until its next look, seconds later: without its request, which
        # may have megabytes.
        self._calls.forget()
        self.stream.readers.set_on_unread(None)
        self._on_end(self)
        if self.stream.observer is not None:
            self.stream.observer.generated()

    # -- attempts ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        self._run_entered = True
        try:
            if not self._is_over and await self._resume_steps():
                await self._run_attempts()
        except asyncio.CancelledError:
            # After cancel(), fail() and hand_over() nothing is left to do. Otherwise the process
            # ends.
            if not self._is_over:
                self.stream.cancel()
        finally:
            self._end()

    async def _run_attempts(self) -> None:
        """Try until an attempt completes the stream, or none is left."""
        while True:
            outcome = await self._calls.call(lambda: self._is_over, self._look_later)
            if self._is_over:
                return  # it was cancelled meanwhile, and the outcome follows from that
            if self._retries.should_wait_for_quota(outcome, self.line.service_class):
                await self._wait_for_quota()
                continue
            if self._shorten_request(outcome):
                continue
            await self._until_in_force()
            outcome = self._accept_text_at_deadline(outcome)
            if isinstance(outcome, ModelFinish):
                if await self._complete_unless_tools(outcome):
                    return
                continue
            if not self._retries.should_retry(outcome):
                self._give_up(outcome)
                return
            self.upstream.limiter.discard_latency(self.stream.response_id)
            await asyncio.sleep(pause_before_retry(outcome))
            self._calls.prepare_next_call()
            self._tools.drop_early()
            self._on_retry()
            self.stream.next_attempt()

    async def _until_in_force(self) -> None:
        """Wait until this node may end the response."""
        while not self._in_force():  # noqa: ASYNC110 - rare, and takes seconds
            await asyncio.sleep(_LEASE_LOOK_SECONDS)

    def _accept_text_at_deadline(
        self, outcome: ModelFinish | EvenflowError
    ) -> ModelFinish | EvenflowError:
        """The outcome. Past the deadline, an answer with text is complete instead of failed."""
        if isinstance(outcome, ModelFinish):
            return outcome
        self.stream.flush()
        is_complete = self._calls.is_past_deadline and self._calls.delivered
        return ModelFinish("length", None) if is_complete else outcome

    async def _complete_unless_tools(self, finish: ModelFinish) -> bool:
        """Complete the response, unless the client runs tools and the model continues.

        Returns:
            Whether the response is complete.
        """
        usage = self._tools.count(finish.usage)
        self.stream.figures.cache_written += finish.cache_written
        if finish.finish_reason in _CALLING and await self._await_results():
            return False
        self.stream.complete("budget" if self._is_over_budget else finish.finish_reason, usage)
        return True

    def _shorten_request(self, outcome: ModelFinish | EvenflowError) -> bool:
        """Shorten a request that was too long for the model. Returns whether it is sent again."""
        left_out = self._calls.shorten(outcome)
        if not left_out:
            return False
        self.upstream.limiter.discard_latency(self.stream.response_id)
        self.stream.drop_history(left_out, "model")
        self._retries.grant_attempt()
        self.stream.next_attempt()
        return True

    async def _wait_for_quota(self) -> None:
        """Release the slot while the model has no quota, and wait for another one."""
        self.waits_since = self._retries.throttled_since
        await self._wait_for_slot()
        self._retries.grant_attempt()
        self.stream.next_attempt()

    async def _wait_for_slot(self) -> None:
        """Wait in the queue for a slot."""
        self._slot_granted = asyncio.get_running_loop().create_future()
        self._requeue(self)
        self._look_later()
        await self._slot_granted
        self._slot_granted = None

    # -- tools of the client -----------------------------------------------------------------------

    async def _resume_steps(self) -> bool:
        """Continue after the steps of an answer that was taken over.

        Returns:
            False if it has ended, since its calls received no results.
        """
        if not (self._calls.has_client_tools and self.stream.log.parts):
            return True
        steps = self._tools.steps
        if steps.turns:
            self._tools.count(None)  # only the lost node knew their tokens
            self._calls.begin_step(steps)
        if not steps.awaits_results or await self._await_results():
            return True
        self.stream.complete("budget" if self._is_over_budget else "tool_calls", None)
        return False

    async def _await_results(self) -> bool:
        """Wait for the results of the model's calls, without a slot, and then for a slot.

        Returns:
            Whether the model continues: there were calls, their results came in time, and another
            call fits into the budget.
        """
        if not (self._calls.has_client_tools and self._tools.may_continue):
            return False
        self._wait_for_tools(self)
        if not await self._tools.results():
            return False
        steps = self._tools.steps
        input_tokens = self._calls.input_tokens(steps)
        if not await self._reserve_call(input_tokens):
            self._is_over_budget = True
            return False
        self.stream.figures.input_estimate += input_tokens
        self.stream.figures.calls += 1
        self._calls.begin_step(steps)
        self._retries.begin_step()
        self.waits_since = self._monotonic()
        await self._wait_for_slot()
        return True

    @property
    def _is_over(self) -> bool:
        return self._is_handed_over or self.stream.state.terminal

    def _give_up(self, error: EvenflowError) -> None:
        is_explained = isinstance(error, ModelRefused | UpstreamExplained)
        if is_explained or not self._fallback_text or self._calls.delivered:
            self.stream.fail(error.to_object())
            return
        self.stream.substitute(self._fallback_text, error.to_object())
        self.stream.complete("stop", None)

    # -- timers ------------------------------------------------------------------------------------

    def on_due(self, slot: int) -> None:
        """Check the grace period and the deadlines."""
        stream = self.stream
        if slot != self._look_slot or self._is_over:
            return
        now = self._monotonic()
        starved = self._leave_out_lost_time(now)
        grace_begins_at = stream.readers.grace_begins_at
        if grace_begins_at is not None and now - grace_begins_at >= self._grace:
            # A client with a request that can't be repeated cancels it by hanging up.
            self.cancel("abandoned" if self.kind.repeatable else "cancelled")
            return
        if now >= self._slot_deadline and self._in_force():
            self.fail(self._waited_too_long())
            return
        self._calls.look(now, starved)
        if self._calls.is_past_deadline_at(now):
            self._tools.give_up()
        self._look_later()

    def _leave_out_lost_time(self, now: float) -> float:
        """Leave out of the grace the time in which no reader could come back to this node.

        That is while the node was starved, and while its lease has lapsed: without the store it
        does not see the polls of other nodes. The sender of a request that can't be repeated does
        not come back.

        Returns:
            The seconds since the last look for which the node was starved.
        """
        looked_at, self._looked_at = self._looked_at, now
        starved = max(0.0, now - self._look_at - _LATE_SECONDS)
        readers = self.stream.readers
        begins_at = readers.grace_begins_at
        if self.kind.repeatable and begins_at is not None and begins_at < now:
            passed = now - max(looked_at, begins_at)
            lost = min(starved, passed) if self._in_force() else passed
            readers.begin_grace_at(begins_at + lost)
        return starved

    def _look_later(self) -> None:
        now = self._monotonic()
        self._look_in(self._seconds_to_next_look(now), now)

    def _look_at_grace_end(self) -> None:
        """Look when the grace period ends: the last reader has left."""
        now = self._monotonic()
        self._look_in(min(self._grace, self._seconds_to_next_look(now)), now)

    def _look_in(self, seconds: float, now: float) -> None:
        self._look_at = now + seconds
        self._look_slot = self._clock.put_after(self, seconds)

    def _waited_too_long(self) -> EvenflowError:
        if self._retries.throttled is not None:
            return self._retries.throttled
        seconds = f"{self._limits.queue_deadline_seconds:g} s"
        return Overloaded(
            f"no model was free to go on with this answer within {seconds}; what was delivered was "
            "kept, ask again"
            if self.is_started
            else f"no model was free for this message within {seconds}; nothing was generated, "
            "send it again as a new one",
            code="queue_timeout",
            retry_after_ms=_QUEUE_RETRY_AFTER_MS,
        )

    @property
    def _slot_deadline(self) -> float:
        if self.waits_since is None:
            return math.inf
        if self._retries.throttled is not None:
            service_class = self.line.service_class
            return self._retries.quota_deadline(self.waits_since, 0, service_class)
        return self.waits_since + self._limits.queue_deadline_seconds

    def _seconds_to_next_look(self, now: float) -> float:
        soonest = now + _LOOK_SECONDS
        due = self._calls.due if self.waits_since is None else self._slot_deadline
        if now < due < soonest:
            soonest = due
        grace_begins_at = self.stream.readers.grace_begins_at
        if grace_begins_at is not None and now < grace_begins_at + self._grace < soonest:
            soonest = grace_begins_at + self._grace
        return soonest - now


def sender_key(line: Line, user: str) -> SenderKey:
    """The key of a sender, from its tenant to its session. If the model's server rejects or
    fails several questions of a sender, the sender waits.
    """
    return (*line.sender, user, line.session)
