"""Begins generations: for messages just accepted, and for responses that are taken over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from evenflow.fargate_handler.orchestrator.agent_requests import AgentRequests
from evenflow.fargate_handler.orchestrator.attempt import upstream_unavailable
from evenflow.fargate_handler.orchestrator.failover import TakenOverResponse
from evenflow.fargate_handler.orchestrator.generation import Generation, upstream_sender
from evenflow.fargate_handler.orchestrator.incoming_message import (
    IncomingMessage,
    ReceivedRequest,
    WholeRequest,
    can_go_on,
    line_of,
)
from evenflow.fargate_handler.orchestrator.message_ledger import MessageLedger
from evenflow.fargate_handler.orchestrator.model_context import prompt_tokens, without_oldest
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.tenant_usage import ExpectedCost, TenantUsage
from evenflow.fargate_handler.orchestrator.upstream import Upstream, Upstreams
from evenflow.fargate_handler.orchestrator.workload import Workload
from evenflow.fargate_handler.token_sources.port import TokenSource
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.base.errors import (
    EvenflowError,
    InternalError,
    NotFound,
    RateLimited,
    is_throttled,
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

# Readers come back within seconds to the task that has taken their answer over.
_FIND_SECONDS = 30.0


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
        repeats_broken: whether it may be asked again for an answer that broke off.
        repeats_lost: whether it may be asked again for one whose task was lost.
    """

    source: TokenSource
    requests: AgentRequests
    fallback_text: str
    name: str = ""
    prices: ModelPrices = field(default_factory=ModelPrices)
    longest: int | None = None
    context: int | None = None
    served: Mapping[str, str] = field(default_factory=dict)
    repeats_broken: bool = True
    repeats_lost: bool = True


class Dispatcher:
    """Makes generations, and adds them to the workload."""

    def __init__(
        self,
        context: NodeContext,
        workload: Workload,
        ledger: MessageLedger,
        model: ServedModel,
        usage: TenantUsage,
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
        self.upstreams = Upstreams(model.source, context.limits)
        """The models that were asked."""
        context.metrics.gauge(catalogue.BREAKERS_OPEN, lambda: self.upstreams.breakers_open)
        context.metrics.gauge(catalogue.MODEL_LIMIT, lambda: self.upstreams.lowest_limit)
        # A series that is there from the start: Prometheus computes rates from the second value on.
        for metric in (catalogue.FIRST_TOKEN, catalogue.TOKEN_GAP):
            context.metrics.divided(metric).of(model.name)

    def check(self, event: IncomingMessage) -> None:
        """Check that a message can be answered.

        Raises:
            NotFound: the channel's agent no longer exists.
            NotPermitted: its tenant has been removed.
            AuthenticationFailed: its key is no longer valid.
            Overloaded: its model's server has failed too often, and there is no fallback answer.
            RateLimited: that server takes no calls for longer than a message may wait.
        """
        channel, kind, terms = event.channel, event.kind, event.terms
        self._tenants.check_valid(channel.tenant, terms.key)
        upstream = self.upstreams.of(self._requests.model(channel, terms, kind))
        sender = upstream_sender(event.line, terms.user)
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

    def asked(self, event: IncomingMessage, conversation: Conversation) -> TokenDemand:
        """How much a message asks for, with what its model is told of the conversation.

        Raises:
            NotFound: the channel's agent no longer exists.
        """
        asked = event.asks
        if asked is None:
            turns = (Turn("user", event.text),)
            asked = self._requests.asked(event.channel, turns, event.terms, event.kind).asks
            told = (
                []
                if event.terms.turns
                else conversation.history_sizes(len(event.text.encode()), event.replaces)
            )
            tokens = asked.input_tokens + sum(map(tokens_of_text_turn, told))
            context = self._requests.context_tokens(event.channel, event.kind) or self._context
            tokens = tokens if context is None else min(tokens, context)
            asked = asked._replace(input_tokens=tokens)
        # Who wants more than the model may answer would take its tenant's whole rate for nothing.
        return asked if asked.longest is None else asked.bounded(self._longest)

    def expected_cost(self, event: IncomingMessage, asked: TokenDemand) -> ExpectedCost:
        """What the answer to a message may cost that asks for so much.

        Raises:
            NotFound: the channel's agent no longer exists.
        """
        model = self._requests.model(event.channel, event.terms, event.kind) or self._model_name
        return ExpectedCost.of(asked.bounded(self._longest), model)

    def _fallback_of(self, kind: MessageKind) -> str:
        return self._fallback_text if kind.falls_back else ""

    def new_stream(
        self, response_id: str, message_id: str, channel: Channel, kind: MessageKind = CHAT
    ) -> ResponseStream:
        """An empty response on this node's clock. The pace of a copy is its owner's."""
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
        asks: TokenDemand | None = None,
        request: ReceivedRequest | None = None,
    ) -> None:
        """Begin to generate the response to the last one of `turns`.

        Args:
            request: the message's request, if that brings its own conversation.
            since: when the message came, or its take-over began, in seconds.
            asks: how much it was charged for. None: another task has charged it.
        """
        inherited = asks is None
        workload = self._workload
        workload.responses.add(stream)
        if not stream.readers:
            # The grace begins only now, however long the ledger took. The sender of a message that
            # can't be repeated is already there: it reads once there is something, and stops the
            # model if it leaves.
            is_there = not kind.repeatable and not inherited
            stream.readers.count_unread_from(None if is_there else self._monotonic())
        workload.request_memory.begin(
            stream,
            turns,
            terms,
            0 if request is None else request.memory_bytes,
            0 if request is None else request.text_bytes,
        )
        whole = None if request is None else request.whole
        asked, limits, gone = self._what_is_asked(stream.channel, kind, turns, terms, whole)
        upstream = self.upstreams.of(asked.model)
        if gone is None:
            asked = self._fitted(asked, stream, kind, upstream)
        asks = asked.asks if asks is None else asks
        self._note(stream, asked, asks, terms, since, inherited=inherited)
        tenant, wanted_ms = self._tenants.of(line.tenant), terms.slo_ttft_ms
        generation = Generation(
            stream=stream,
            kind=kind,
            line=line._replace(service_class=tenant.service_class.or_lower(terms.service_class)),
            wanted_by=None if wanted_ms is None else stream.created_at + wanted_ms / 1000,
            input_tokens=asks.input_tokens,
            asked=asked,
            upstream=upstream,
            clock=self._clock,
            limits=limits,
            grace_seconds=self._grace_of(kind, inherited=inherited),
            fallback_text=self._fallback_of(kind),
            continues=lambda asked: self._source.continues and can_go_on(asked, stream.log.entries),
            monotonic=self._monotonic,
            in_force=lambda: self._ledger.in_force,
            wait_again=workload.generations.wait_again,
            wait_for_tools=workload.generations.wait_for_tools,
            on_attempt=self._attempted_again,
            on_failure=self._attempt_failed,
            on_end=workload.generations.ended,
            repeatable=self._repeats_broken,
            filters=self._filters,
            reserve_call=partial(self._usage.reserve_call, stream),
        )
        workload.generations.add(generation)
        if gone is None and inherited and stream.epoch > 1 and not self._repeats_lost:
            gone = _not_repeated()
        if gone is not None:
            generation.interrupt(gone)

    def _note(
        self,
        stream: ResponseStream,
        asked: WholeRequest,
        asks: TokenDemand,
        terms: MessageTerms,
        since: float,
        *,
        inherited: bool,
    ) -> None:
        """Note what a response's trace, log line, limit and usage need."""
        if self._traces is not None:
            stream.observe(
                self._traces.begin(
                    stream, terms.traceparent, asked.model, since, taken_over=inherited
                )
            )
        traced = terms.traceparent if stream.observer is None else stream.observer.traceparent
        figures = stream.figures
        figures.trace = trace_id_in(traced)
        figures.model = asked.model or self._model_name
        figures.key = terms.key
        figures.input_estimate = asks.input_tokens
        figures.media_tokens = most_media_tokens(asked.turns)
        figures.longest = asks.bounded(self._longest).output_tokens
        if self._longest is not None:
            stream.allowance.limit_call(self._longest * asks.choices)
        if self._tenants.is_known(stream.channel.tenant):
            self._note_for_usage(stream, asks, terms, inherited=inherited)

    def _grace_of(self, kind: MessageKind, *, inherited: bool) -> float:
        """The seconds for which an answer goes on without a reader."""
        if kind.grace_seconds is None:
            grace = self._limits.grace_seconds
            return math.inf if grace is None else grace
        # The readers of one that was taken over must find this task first.
        return max(kind.grace_seconds, _FIND_SECONDS if inherited else 0.0)

    def _note_for_usage(
        self, stream: ResponseStream, asks: TokenDemand, terms: MessageTerms, *, inherited: bool
    ) -> None:
        figures = stream.figures
        figures.user = terms.user
        if inherited:
            self._usage.go_on(
                stream, terms, ExpectedCost.of(asks.bounded(self._longest), figures.model)
            )

    def inherit(self, left: TakenOverResponse) -> bool:
        """Go on with a response that this task has taken over. Returns False if it already did.

        Raises:
            RateLimited: there is no room for the response, or for its session.
        """
        workload, response_id, channel = self._workload, left.head.response_id, left.channel
        if self._ledger.writes(left.lease):
            return False  # it was never lost: perhaps its end is just not on record yet
        if (stale := workload.generations.of(response_id)) is not None:
            stale.abandon()  # it ran under a lease that was lost without our knowing
        if not workload.has_room:
            raise RateLimited("no room to take this response over now", code="queue_full")
        kind = MessageKind.from_text(left.message.kind)
        conversation = workload.conversations.open(channel, self._monotonic(), kind)
        if conversation.known_response(left.message.message_id) != response_id:
            conversation.catch_up(left.conversation, self._ledger.owner)
        stream = self.new_stream(response_id, left.message.message_id, channel, kind)
        entries = left.stored.entries
        if entries or left.lease.epoch > 1:
            stream.adopt_log(entries, left.lease.epoch, left.began_at)
        copy = workload.responses.held(response_id)
        if copy is not None:
            workload.responses.drop(copy)
        line = line_of(channel, kind)
        terms = MessageTerms.from_text(left.message.terms)
        charge = self._quotas.take_over(Caller(line.tenant, terms.key, terms.user))
        workload.begin(stream, kind, line, charge)
        try:
            with workload.beginning(stream, conversation):
                self._ledger.go_on(stream, left.lease, len(entries), kind)
                text = left.message.text
                request = ReceivedRequest.from_text(text) if kind.brings_conversation else None
                turns = conversation.begin_late(
                    left.message.message_id, text if request is None else None, left.conversation
                )
                self.begin(stream, kind, line, turns, terms, since=left.since, request=request)
        finally:
            if copy is not None:
                copy.lose()
        return True

    def _what_is_asked(
        self,
        channel: Channel,
        kind: MessageKind,
        turns: tuple[Turn, ...],
        terms: MessageTerms,
        whole: WholeRequest | None,
    ) -> tuple[WholeRequest, Limits, EvenflowError | None]:
        """The request to the model, and the limits. With an error if the agent no longer exists."""
        try:
            asked = self._requests.asked(channel, turns, terms, kind, whole)
            return asked, self._requests.limits(channel, terms, self._limits, kind), None
        except NotFound as gone:
            return whole or WholeRequest(turns), self._limits, gone

    def _fitted(
        self, asked: WholeRequest, stream: ResponseStream, kind: MessageKind, upstream: Upstream
    ) -> WholeRequest:
        """The request without the oldest messages that don't fit into the model's context."""
        of_agent = self._requests.context_tokens(stream.channel, kind)
        known = [
            it for it in (of_agent or self._context, upstream.context.tokens) if it is not None
        ]
        if kind.brings_conversation or not known:
            return asked
        most = prompt_tokens(min(known), asked.options.within(self._longest).longest)
        turns, left_out = without_oldest(asked.turns, most)
        stream.drop_history(left_out, "model")
        return replace(asked, turns=turns)

    def _attempted_again(self) -> None:
        self._retries.value += 1

    def _attempt_failed(self, error: EvenflowError) -> None:
        self._failures.count(error.code)
        self._throttles.value += is_throttled(error)


def _not_repeated() -> InternalError:
    return InternalError(
        "the task that wrote this answer was lost, and its model must not be called twice for one "
        "message; what was delivered was kept, ask it to go on",
        code="not_repeated",
    )
