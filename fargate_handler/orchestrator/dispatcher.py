"""Checks that a message can be answered, and begins generations, also for responses taken over."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from evenflow.fargate_handler.orchestrator.agent_settings import AgentSettings
from evenflow.fargate_handler.orchestrator.budget_reservations import (
    BudgetReservations,
    ExpectedCost,
)
from evenflow.fargate_handler.orchestrator.failover import TakenOverResponse
from evenflow.fargate_handler.orchestrator.generation import Generation, sender_key
from evenflow.fargate_handler.orchestrator.incoming_message import (
    IncomingMessage,
    ReceivedRequest,
    WholeRequest,
    can_continue,
    line_of,
)
from evenflow.fargate_handler.orchestrator.message_ledger import MessageLedger
from evenflow.fargate_handler.orchestrator.model_context import prompt_tokens, without_oldest
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.upstream import (
    Upstream,
    Upstreams,
    upstream_unavailable,
)
from evenflow.fargate_handler.orchestrator.workload import Workload
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog
from evenflow.fargate_handler.token_sources.port import TokenSource
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.base.errors import (
    EvenflowError,
    InternalError,
    NotFound,
    RateLimited,
    is_throttled,
    is_upstreams_fault,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.base.trace_context import trace_id_in
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.session.conversation import Conversation, Turn
from evenflow.stream_core.session.token_estimate import most_media_tokens, tokens_of_text_turn
from evenflow.stream_core.tenants.charges import Caller, TokenDemand

_logger = logging.getLogger("evenflow.model")

# Readers reconnect within seconds to the node that has taken their answer over.
_RECONNECT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model of this node.

    Args:
        requests: what agents add to messages.
        fallback_text: the answer if the model can't give one. Empty: an error instead.
        name: its name at its server, where a message names no other.
        prices: what it costs, and others that it serves.
        served: the models' names at their server by public name.
        longest: the longest answer, in its tokens. None: the server's own limit.
        context: the longest prompt and answer together, in its tokens. None: not known.
        repeats_broken: whether it may be called again for an answer that broke off.
        repeats_lost: whether it may be called again for an answer whose node was lost.
    """

    source: TokenSource
    requests: AgentSettings
    fallback_text: str
    name: str = ""
    prices: ModelPrices = field(default_factory=ModelPrices)
    longest: int | None = None
    context: int | None = None
    served: Mapping[str, str] = field(default_factory=dict)
    repeats_broken: bool = True
    repeats_lost: bool = True


class Dispatcher:
    """Creates generations, and adds them to the workload."""

    def __init__(
        self,
        context: NodeContext,
        workload: Workload,
        ledger: MessageLedger,
        model: ServedModel,
        usage: BudgetReservations,
    ) -> None:
        self._usage = usage
        self._tenants = context.tenants
        self._longest = model.longest
        self._context = model.context
        self._repeats_broken, self._repeats_lost = model.repeats_broken, model.repeats_lost
        self._workload = workload
        self._ledger = ledger
        self._source = model.source
        self._requests = model.requests
        self._fallback_text = model.fallback_text
        self._model_name = model.name
        self._clock = context.clock
        self._limits = context.limits
        self._monotonic = context.monotonic
        self._quotas = context.quotas
        self._traces = context.traces
        self._filters = context.filters
        self._retries = context.metrics.counter(catalogue.GENERATION_RETRIES)
        self._failures = context.metrics.labelled(catalogue.UPSTREAM_FAILURES)
        self._throttles = context.metrics.counter(catalogue.UPSTREAM_THROTTLES)
        self._operator = OperatorLog(_logger, context.monotonic)
        self.upstreams = Upstreams(model.source, context.limits)
        """The models with calls so far."""
        context.metrics.gauge(catalogue.BREAKERS_OPEN, lambda: self.upstreams.breakers_open)
        context.metrics.gauge(catalogue.MODEL_LIMIT, lambda: self.upstreams.lowest_share)
        # A series that is there from the start: Prometheus computes rates from the second value on.
        for metric in (catalogue.FIRST_TOKEN, catalogue.TOKEN_GAP):
            context.metrics.divided(metric).of(model.name)

    def check_model(self, message: IncomingMessage) -> None:
        """Check that the agent exists, and that its model's server takes calls.

        Raises:
            NotFound: the channel's agent no longer exists.
            Overloaded: its model's server has failed too often, and there is no fallback answer.
            RateLimited: that server takes no calls for longer than a message may wait.
        """
        channel, kind, terms = message.channel, message.kind, message.terms
        upstream = self.upstreams.of(self._requests.model(channel, terms, kind))
        sender = sender_key(message.line, terms.user)
        backoff, now = upstream.limiter.backoff, self._monotonic()
        closed_for = backoff.paused_for(now)
        if not kind.is_told_at_once:
            closed_for = max(closed_for, backoff.sender_paused_until(sender) - now)
        if closed_for > self._limits.queue_deadline_seconds:
            raise RateLimited(
                "the model's server takes no calls for now; the message was not accepted, send it "
                "again then",
                code="upstream_throttled",
                retry_after_ms=math.ceil(closed_for * 1000),
            )
        seconds = upstream.breaker.open_for(sender, now)
        if seconds > 0 and not self._fallback_of(kind):
            raise upstream_unavailable(seconds, "the message was not accepted, send it again then")

    def demand_of(self, message: IncomingMessage, conversation: Conversation) -> TokenDemand:
        """The tokens of a message: its input, with the conversation for the model, and its output.

        Raises:
            NotFound: the channel's agent no longer exists.
        """
        demand = message.demand
        if demand is None:
            turns = (Turn("user", message.text),)
            request = self._requests.build(message.channel, turns, message.terms, message.kind)
            demand = request.demand
            history = (
                []
                if message.terms.turns
                else conversation.history_sizes(len(message.text.encode()), message.replaces)
            )
            tokens = demand.input_tokens + sum(map(tokens_of_text_turn, history))
            context = self._requests.context_tokens(message.channel, message.kind) or self._context
            tokens = tokens if context is None else min(tokens, context)
            demand = demand._replace(input_tokens=tokens)
        # A message with a longer limit than the model's would use up its tenant's rate for nothing.
        return demand if demand.longest is None else demand.bounded(self._longest)

    def expected_cost(self, message: IncomingMessage, demand: TokenDemand) -> ExpectedCost:
        """The most that the answer to a message of this demand may cost.

        Raises:
            NotFound: the channel's agent no longer exists.
        """
        channel, terms = message.channel, message.terms
        model = self._requests.model(channel, terms, message.kind) or self._model_name
        return ExpectedCost.of(demand.bounded(self._longest), model)

    def _fallback_of(self, kind: MessageKind) -> str:
        return self._fallback_text if kind.falls_back else ""

    def new_stream(
        self, response_id: str, message_id: str, channel: Channel, kind: MessageKind = CHAT
    ) -> ResponseStream:
        """Create an empty response or replica. A replica has the timing of its owner."""
        return ResponseStream(
            response_id=response_id,
            message_id=message_id,
            channel=channel,
            clock=self._clock,
            limits=self._limits,
            monotonic=self._monotonic,
            kind=kind,
        )

    def begin(
        self,
        stream: ResponseStream,
        kind: MessageKind,
        line: Line,
        turns: tuple[Turn, ...],
        terms: MessageTerms,
        *,
        since: float,
        demand: TokenDemand | None = None,
        received: ReceivedRequest | None = None,
        is_taken_over: bool = False,
    ) -> None:
        """Begin to generate the response to the last one of `turns`.

        Args:
            received: the message's request, if that brings its own conversation.
            since: the arrival of the message, or the begin of its take-over, in seconds.
            demand: the tokens that it was charged for. None: those of its request.
            is_taken_over: whether another node accepted the message, and charged it.
        """
        workload = self._workload
        workload.responses.add(stream)
        if not stream.readers:
            # The grace begins only now, however long the store took. The sender of a message that
            # can't be repeated is already there: it reads once there is something, and stops the
            # model if it leaves.
            is_there = not kind.repeatable and not is_taken_over
            stream.readers.begin_grace_at(None if is_there else self._monotonic())
        workload.request_memory.begin(
            stream,
            turns,
            terms,
            0 if received is None else received.memory_bytes,
            0 if received is None else received.text_bytes,
        )
        whole = None if received is None else received.whole
        request, limits, agent_error = self._request_and_limits(
            stream.channel, kind, turns, terms, whole
        )
        upstream = self.upstreams.of(request.model)
        if agent_error is None:
            request = self._fitted(request, stream, kind, upstream)
        demand = request.demand if demand is None else demand
        self._record_request(stream, request, demand, terms, since, is_taken_over=is_taken_over)
        tenant, wanted_ms = self._tenants.of(line.tenant), terms.slo_ttft_ms
        generation = Generation(
            stream=stream,
            kind=kind,
            line=line._replace(service_class=tenant.service_class.or_lower(terms.service_class)),
            first_token_deadline=(
                None if wanted_ms is None else stream.created_at + wanted_ms / 1000
            ),
            input_tokens=demand.input_tokens,
            request=request,
            upstream=upstream,
            clock=self._clock,
            limits=limits,
            grace_seconds=self._grace_of(kind, is_taken_over=is_taken_over),
            fallback_text=self._fallback_of(kind),
            continues=lambda request: (
                self._source.continues and can_continue(request, stream.log.entries)
            ),
            monotonic=self._monotonic,
            in_force=lambda: self._ledger.in_force,
            requeue=workload.generations.requeue,
            wait_for_tools=workload.generations.wait_for_tools,
            on_retry=self._count_retry,
            on_failure=partial(self._count_failure, upstream.name),
            on_end=workload.generations.remove,
            may_call_again=self._repeats_broken,
            filters=self._filters,
            reserve_call=partial(self._usage.reserve_call, stream),
        )
        workload.generations.add(generation)
        if agent_error is None and is_taken_over and stream.epoch > 1 and not self._repeats_lost:
            agent_error = _not_repeated()
        if agent_error is not None:
            generation.fail(agent_error)

    def _record_request(
        self,
        stream: ResponseStream,
        request: WholeRequest,
        demand: TokenDemand,
        terms: MessageTerms,
        since: float,
        *,
        is_taken_over: bool,
    ) -> None:
        """Record what the trace, the log line, the limit and the usage of a response need."""
        if self._traces is not None:
            stream.observe(
                self._traces.begin(
                    stream, terms.traceparent, request.model, since, taken_over=is_taken_over
                )
            )
        traced = terms.traceparent if stream.observer is None else stream.observer.traceparent
        figures = stream.figures
        figures.trace = trace_id_in(traced)
        figures.model = request.model or self._model_name
        figures.key = terms.key
        figures.input_estimate = demand.input_tokens
        figures.media_tokens = most_media_tokens(request.turns)
        figures.longest = demand.bounded(self._longest).output_tokens
        if self._longest is not None:
            stream.allowance.limit_call(self._longest * demand.choices)
        if self._tenants.is_known(stream.channel.tenant):
            self._record_for_usage(stream, demand, terms, is_taken_over=is_taken_over)

    def _grace_of(self, kind: MessageKind, *, is_taken_over: bool) -> float:
        """The seconds for which an answer goes on without a reader."""
        if kind.grace_seconds is None:
            grace = self._limits.grace_seconds
            return math.inf if grace is None else grace
        # The readers of a response that was taken over must find this node first.
        return max(kind.grace_seconds, _RECONNECT_SECONDS if is_taken_over else 0.0)

    def _record_for_usage(
        self,
        stream: ResponseStream,
        demand: TokenDemand,
        terms: MessageTerms,
        *,
        is_taken_over: bool,
    ) -> None:
        figures = stream.figures
        figures.user = terms.user
        if is_taken_over:
            self._usage.adopt_reservation(
                stream, terms, ExpectedCost.of(demand.bounded(self._longest), figures.model)
            )

    def resume_taken_over(self, taken: TakenOverResponse) -> bool:
        """Resume a response that this node has taken over. Returns False if it already did.

        Raises:
            RateLimited: there is no room for the response, or for its session.
        """
        workload, response_id, channel = self._workload, taken.head.response_id, taken.channel
        if self._ledger.writes(taken.lease):
            return False  # it was never lost: perhaps its end is not stored yet
        if (stale := workload.generations.of(response_id)) is not None:
            stale.hand_over()  # it ran under a lease that was lost without notice
        if not workload.has_room:
            raise RateLimited("no room to take this response over now", code="queue_full")
        kind = MessageKind.from_text(taken.message.kind)
        conversation = workload.conversations.open(channel, self._monotonic(), kind)
        if conversation.known_response(taken.message.message_id) != response_id:
            conversation.catch_up(taken.stored_conversation, self._ledger.owner)
        stream = self.new_stream(response_id, taken.message.message_id, channel, kind)
        entries = taken.stored_log.entries
        if entries or taken.lease.epoch > 1:
            stream.adopt_log(entries, taken.lease.epoch, taken.began_at)
        replica = workload.responses.of_any_session(response_id)
        if replica is not None:
            workload.responses.drop(replica)
        line = line_of(channel, kind)
        terms = MessageTerms.from_text(taken.message.terms)
        charge = self._quotas.take_over(Caller(line.tenant, terms.key, terms.user))
        workload.count_in_flight(stream, kind, line, charge)
        try:
            with workload.ended_on_failure(stream, conversation):
                self._ledger.record_rest(stream, taken.lease, len(entries), kind)
                text = taken.message.text
                received = ReceivedRequest.from_text(text) if kind.brings_conversation else None
                turns = conversation.begin_accepted(
                    taken.message.message_id,
                    text if received is None else None,
                    taken.stored_conversation,
                )
                self.begin(
                    stream,
                    kind,
                    line,
                    turns,
                    terms,
                    since=taken.since,
                    received=received,
                    is_taken_over=True,
                )
        finally:
            if replica is not None:
                replica.lose()
        return True

    def _request_and_limits(
        self,
        channel: Channel,
        kind: MessageKind,
        turns: tuple[Turn, ...],
        terms: MessageTerms,
        whole: WholeRequest | None,
    ) -> tuple[WholeRequest, Limits, EvenflowError | None]:
        """The request to the model, the limits, and the error if the agent no longer exists."""
        try:
            request = self._requests.build(channel, turns, terms, kind, whole)
            return request, self._requests.limits(channel, terms, self._limits, kind), None
        except NotFound as agent_error:
            return whole or WholeRequest(turns), self._limits, agent_error

    def _fitted(
        self, request: WholeRequest, stream: ResponseStream, kind: MessageKind, upstream: Upstream
    ) -> WholeRequest:
        """The request without the oldest messages that do not fit into the model's context."""
        of_agent = self._requests.context_tokens(stream.channel, kind)
        known = [
            it for it in (of_agent or self._context, upstream.context.tokens) if it is not None
        ]
        if kind.brings_conversation or not known:
            return request
        most = prompt_tokens(min(known), request.options.within(self._longest).longest)
        turns, left_out = without_oldest(request.turns, most)
        stream.drop_history(left_out, "model")
        return replace(request, turns=turns)

    def _count_retry(self) -> None:
        self._retries.value += 1

    def _count_failure(self, model: str, error: EvenflowError) -> None:
        self._failures.count(error.code)
        self._throttles.value += is_throttled(error)
        if is_upstreams_fault(error):
            cause = "" if error.__cause__ is None else f" ({type(error.__cause__).__name__})"
            self._operator.warning(
                f"an attempt at model {model!r} failed: {error.code}{cause}", str(error)
            )


def _not_repeated() -> InternalError:
    return InternalError(
        "the node that wrote this answer was lost, and its model must not be called twice for one "
        "message; what was delivered was kept, ask it to go on",
        code="not_repeated",
    )
