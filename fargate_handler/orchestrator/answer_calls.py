"""Calls the model for one answer: the requests, the sinks of the tokens, and the outcomes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

from evenflow.fargate_handler.filters.content_filters import ContentFilters
from evenflow.fargate_handler.filters.filtering_sink import ContentFiltered
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest, caller_info
from evenflow.fargate_handler.orchestrator.model_context import (
    is_too_long,
    prompt_tokens,
    stated_context,
    without_oldest,
)
from evenflow.fargate_handler.orchestrator.model_watch import ModelWatch
from evenflow.fargate_handler.orchestrator.token_sinks import (
    CountingSink,
    FirstTokenSink,
    ReplacingSink,
    SpokenRefusals,
    ToolCallNumbering,
)
from evenflow.fargate_handler.orchestrator.upstream import (
    Upstream,
    report_outcome,
    upstream_unavailable,
)
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from evenflow.stream_core.base.channel import MessageKind
from evenflow.stream_core.base.errors import (
    EvenflowError,
    InternalError,
    UpstreamFailed,
    UpstreamTimeout,
    UpstreamUnreadable,
    is_over_quota,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseFull, ResponseStream
from evenflow.stream_core.log.entries import NotAPart
from evenflow.stream_core.session.token_estimate import estimated_tokens
from evenflow.stream_core.session.tool_steps import ToolSteps, tool_steps
from evenflow.stream_core.upstream.circuit_breaker import CircuitOpen, SenderKey, UpstreamCall
from evenflow.stream_core.upstream.rejection_backoff import RejectedCall

_logger = logging.getLogger(__name__)

_NO_STEPS = tool_steps(())
_MOST_SHORTENINGS = 4
# Rejections of one message after which it backs off by itself, so that it is not sent in vain.
_THROTTLES_WITHOUT_BACKOFF = 3
_FIRST_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS = 0.05, 0.5


class AnswerCalls:
    """The calls for one response, one after the other.

    Args:
        stream: takes the tokens.
        kind: the kind of the message.
        request: the request to the model.
        continues: whether the source can continue the delivered answer of a request.
        filters: filter what goes into the response's log. None: there are none.
        on_failure: called with the error of each call that failed.
        sender: the sender of the message, as the circuit breaker knows it.
    """

    def __init__(
        self,
        *,
        stream: ResponseStream,
        kind: MessageKind,
        request: WholeRequest,
        upstream: Upstream,
        limits: Limits,
        continues: Callable[[WholeRequest], bool],
        monotonic: Callable[[], float],
        filters: ContentFilters | None,
        on_failure: Callable[[EvenflowError], None],
        sender: SenderKey,
    ) -> None:
        self._stream = stream
        self._kind = kind
        self._request = request
        self._upstream = upstream
        self._limits = limits
        self._continues = continues
        self._monotonic = monotonic
        self._filters = filters
        self._on_failure = on_failure
        self._sender = sender
        self._throttles = 0
        self.not_before = -inf
        """The time before which its model's server accepts no call for it, in seconds."""
        self._running: asyncio.Task[Any] | None = None
        self._call: UpstreamCall | None = None
        self._overdue: UpstreamTimeout | None = None
        self._watch = ModelWatch(stream, limits, monotonic())
        self._steps = _NO_STEPS
        # A response that was taken over has a beginning.
        self._prefix = stream.log.text if stream.log.entries and continues(request) else ""
        self._tokens_before = 0
        self._began_at = 0.0
        # How often a request that is too long may still be shortened.
        self._shortenings = _MOST_SHORTENINGS

    @property
    def has_client_tools(self) -> bool:
        """Whether the client runs the tools, and their results continue the same answer."""
        return bool(self._request.options.tools) and not self._kind.brings_conversation

    @property
    def gave_tokens(self) -> bool:
        """Whether the last call gave any tokens."""
        return self._stream.tokens > self._tokens_before

    @property
    def delivered(self) -> bool:
        """Whether any of the model's output is delivered and not withdrawn: text, or reasoning."""
        return bool(self._stream.log.read(0).contents)

    @property
    def _has_begun(self) -> bool:
        """Whether there is current output after the steps that are kept."""
        log, first = self._stream.log, self._stream.kept_index + 1
        return log.next_index > first and bool(log.read(first).contents)

    @property
    def is_past_deadline(self) -> bool:
        """Whether the deadline of the whole response has passed."""
        return self.is_past_deadline_at(self._monotonic())

    def is_past_deadline_at(self, moment: float) -> bool:
        """Whether that deadline has passed at `moment`, in seconds."""
        return self._watch.is_over(moment)

    @property
    def due(self) -> float:
        """When to look again at the latest, in seconds."""
        return self._watch.due

    def start(self) -> None:
        """Start the deadline of the whole response."""
        self._watch = ModelWatch(self._stream, self._limits, self._monotonic())

    def look(self, now: float, starved: float) -> None:
        """End the running call if it is overdue, and record whether it answers.

        Args:
            starved: the seconds since the last look in which this node could not read the model.
        """
        if self._call is not None and self.gave_tokens:
            self._call.record_answering()
        if self._running is not None and self._overdue is None:
            self._overdue = self._watch.look(now, starved)
            if self._overdue is not None:
                self._running.cancel()

    def prepare_next_call(self) -> None:
        """Prepare the next call: it continues what was delivered if it can, or begins anew."""
        # If a continued attempt gave nothing, another one would hardly get further.
        can = self.gave_tokens and self._continues(self._request)
        self._prefix = self._stream.log.text if can else ""

    def shorten(self, outcome: ModelFinish | EvenflowError) -> int:
        """Leave the oldest exchanges out of a request that was too long for the model.

        Returns:
            The number of messages left out. 0: the request can't be shortened.
        """
        if isinstance(outcome, ModelFinish) or not is_too_long(outcome):
            return 0
        stated = stated_context(outcome)
        if stated is not None:
            self._upstream.context.tokens = stated
        if self._kind.brings_conversation or self.delivered or not self._shortenings:
            return 0
        turns = self._request.turns
        most = (size := estimated_tokens(turns)) // 2
        if stated is not None and self._shortenings == _MOST_SHORTENINGS:
            room = prompt_tokens(stated, self._request.options.longest)
            most = room if room < size else most
        turns, left_out = without_oldest(turns, most)
        self._shortenings -= 1
        self._request = replace(self._request, turns=turns)
        return left_out

    def input_tokens(self, steps: ToolSteps) -> int:
        """The estimated input tokens of the next call, with the results of these steps."""
        turns = (*self._request.turns, *steps.turns)
        return replace(self._request, turns=turns).demand.input_tokens

    def begin_step(self, steps: ToolSteps) -> None:
        """Continue after these steps: they are kept, and the model receives their results."""
        self._steps, self._prefix = steps, ""
        self._stream.keep_step(steps.last_index)

    def forget(self) -> None:
        """Release the request, which may have megabytes. No call follows."""
        self._request = WholeRequest(())

    async def call(
        self, is_over: Callable[[], bool], on_begin: Callable[[], None]
    ) -> ModelFinish | EvenflowError:
        """Call the model, unless it fails too often for this sender. Returns the outcome.

        Args:
            is_over: whether the response has ended, or another node continues it.
            on_begin: called when the call has begun. From now on it may be overdue.
        """
        upstream = self._upstream
        try:
            call = self._call = upstream.breaker.call(self._sender, self._monotonic())
        except CircuitOpen as rejection:
            return upstream_unavailable(
                rejection.seconds, "what was delivered was kept, ask again then"
            )
        try:
            outcome = await self._outcome(is_over, on_begin)
            # After a cancel it is the source's answer to that. A deadline is the request's.
            if not is_over() and (isinstance(outcome, ModelFinish) or not self.is_past_deadline):
                report_outcome(call, outcome, self._monotonic(), gave_tokens=self.gave_tokens)
            if isinstance(outcome, ModelFinish):
                upstream.limiter.backoff.record_acceptance(self._began_at)
            elif not (is_over() or (self.is_past_deadline and self.delivered)):
                # Cut off by its own time, an answer with text is complete.
                self._failed(outcome)
            return outcome
        finally:
            self._call = None
            call.record_withdrawal(self._monotonic())

    async def _outcome(
        self, is_over: Callable[[], bool], on_begin: Callable[[], None]
    ) -> ModelFinish | EvenflowError:
        """The outcome of a call, with its error as a value."""
        try:
            return await self._try(is_over, on_begin)
        except ResponseFull:
            return ModelFinish(self._stream.allowance.cut_by, None)
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

    @property
    def _rejected_call(self) -> RejectedCall:
        stream = self._stream
        # The id of a program's whole request is the same each time that it is sent.
        whole = self._kind.brings_conversation and self._kind.read_by_program
        text = stream.message_id if whole else (stream.channel, stream.message_id)
        return RejectedCall(self._sender, text, stream.response_id)

    def _failed(self, error: EvenflowError) -> None:
        self._on_failure(error)
        if is_over_quota(error):
            after = error.retry_after_ms
            seconds = None if after is None else after / 1000
            now = self._monotonic()
            limiter = self._upstream.limiter
            pause = limiter.record_rejection(now, self._began_at, seconds, self._rejected_call)
            self._throttles += 1
            doublings = self._throttles - _THROTTLES_WITHOUT_BACKOFF
            backoff = _FIRST_BACKOFF_SECONDS * 2**doublings if doublings > 0 else 0.0
            self.not_before = now + max(pause, min(_LONGEST_BACKOFF_SECONDS, backoff))

    async def _try(self, is_over: Callable[[], bool], on_begin: Callable[[], None]) -> ModelFinish:
        stream = self._stream
        self._began_at = self._monotonic()
        self._watch.begin(self._began_at)
        self._tokens_before = stream.tokens
        self._overdue = None
        replaces = not self._prefix and self._has_begun
        # Not a task of its own, which would cost as much as a few tokens.
        running = self._running = asyncio.current_task()
        on_begin()
        try:
            finish = await self._generate(replaces=replaces)
        except asyncio.CancelledError:
            is_ours = running is not None and running.cancelling() == 1
            if self._overdue is not None and is_ours and not is_over():
                raise self._overdue from None
            raise
        finally:
            self._running = None
            if self._overdue is not None and running is not None:
                running.uncancel()
        if replaces and stream.tokens == self._tokens_before:
            raise UpstreamFailed(
                "the model began again and said nothing; what was delivered before was kept",
                code="upstream_failed",
            )
        return finish

    async def _generate(self, *, replaces: bool) -> ModelFinish:
        """Have the source generate, through all sinks before the log.

        Args:
            replaces: whether its tokens replace what was delivered before.
        """
        stream = self._stream
        sink: TokenSink = ReplacingSink(stream) if replaces else stream
        if stream.observer is not None and stream.epoch > 1:
            # Its first delta came on another node, so the response does not report it.
            sink = FirstTokenSink(sink, stream.observer.first_token)
        filtered = None
        if self._filters is not None:
            standing = () if replaces else stream.log.read(0).current
            filtered = self._filters.of(stream, self._kind, sink, standing)
            if filtered is not None:
                # The model has begun, even if the filters hold its first token.
                counting = CountingSink(filtered.sink, stream)
                sink = FirstTokenSink(counting, stream.delivery.report_first_token)
        if replaces:
            sink = FirstTokenSink(sink, stream.discount_attempt)
        if self.has_client_tools:
            sink = ToolCallNumbering(sink, stream, self._steps)
        spoken = None if self._kind.brings_conversation else SpokenRefusals(sink)
        generating = self._upstream.source.generate(self._model_request(), spoken or sink)
        if filtered is not None:
            generating = filtered.finish_of(generating)
        finish = await generating
        return finish if spoken is None else spoken.finish(finish)

    def _model_request(self) -> ModelRequest:
        stream, request, observer = self._stream, self._request, self._stream.observer
        backoff, steps, options = self._upstream.limiter.backoff, self._steps, request.options
        if steps.turns:
            # With a required choice the model would call tools forever.
            options = replace(options, tool_choice=None)
        return ModelRequest(
            stream.channel.agent,
            (*request.turns, *steps.turns),
            stream.attempt,
            self._prefix,
            self._idempotency_key,
            options,
            model=request.model,
            caller=caller_info(self._kind, stream.channel, stream.message_id, request),
            traceparent=request.traceparent if observer is None else observer.traceparent,
            # Only chat completions have the model's names of parameters.
            translated=bool(request.echo) or not self._kind.read_by_program,
            on_quota_used=lambda seconds: backoff.pause(self._monotonic(), seconds),
        )

    @property
    def _idempotency_key(self) -> str:
        """The idempotency key of the call: a repeated call has the same one."""
        stream, step = self._stream, len(self._steps.turns)
        name = f"{stream.response_id}:{stream.epoch}:{stream.attempt}"
        return f"{name}:{step}" if step else name


def _drop_frames(error: BaseException) -> None:
    """Drop the frames of an error and of its causes."""
    chain: list[BaseException | None] = [error]
    while chain:
        failed = chain.pop()
        if failed is not None and failed.__traceback__ is not None:
            failed.__traceback__ = None
            chain += [failed.__cause__, failed.__context__]
