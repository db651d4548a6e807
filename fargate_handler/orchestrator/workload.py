"""What this node answers now: conversations, generations, responses and counts of messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from evenflow.fargate_handler.orchestrator.conversations import Conversations
from evenflow.fargate_handler.orchestrator.generation import Generation
from evenflow.fargate_handler.orchestrator.generations import Generations
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.request_memory import RequestMemory
from evenflow.fargate_handler.orchestrator.responses import Responses
from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.base.errors import EvenflowError, Overloaded, RateLimited
from evenflow.stream_core.bounds.memory_account import MemoryAccount
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.http.http_contract import internal_error
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.queue.delivery_shares import over_their_share
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.records.answer_usage import charged_usage, pieces_used
from evenflow.stream_core.session.conversation import Conversation
from evenflow.stream_core.tenants.charges import Charge, TokenDemand


class _InFlight(NamedTuple):
    kind: MessageKind
    line: Line
    charge: Charge


class Workload:
    """Conversations, generations and responses, and counts of messages by tenant and session.

    Args:
        store_in_memory: whether the store is in this process' memory.
    """

    def __init__(self, context: NodeContext, *, store_in_memory: bool) -> None:
        limits = context.limits
        metrics = context.metrics
        refused = metrics.counter(catalogue.MEMORY_REFUSED)
        forgotten = metrics.counter(catalogue.CONVERSATIONS_FORGOTTEN)
        self.memory = MemoryAccount(limits, refused.add)
        self.conversations = Conversations(limits, self.memory, forgotten.add)
        self.generations = Generations(context, self._release)
        self.responses = Responses(limits, self.memory, context.monotonic)
        self.request_memory = RequestMemory(self.memory, store_in_memory=store_in_memory)
        self.draining = False
        """Whether this node is draining, so that it accepts nothing new."""
        self._limits = limits
        self._monotonic = context.monotonic
        self._refused = metrics.counter(catalogue.QUEUE_REFUSED)
        self._shortened = metrics.counter(catalogue.RESPONSES_SHORTENED)
        self._quotas = context.quotas
        self._intervals = context.clock.intervals
        self._tenants = context.tenants
        self._in_flight: dict[ResponseStream, _InFlight] = {}
        self._in_flight_of_tenant: Counter[str] = Counter()
        self._being_accepted = 0
        metrics.gauge(catalogue.RESPONSES_IN_MEMORY, lambda: len(self.responses))
        metrics.gauge(catalogue.MEMORY_HELD, lambda: self.memory.bytes)
        metrics.gauge(catalogue.STRETCHED_TENANTS, lambda: self._intervals.stretched)

    @property
    def busy(self) -> bool:
        """Whether any response has not ended, or any message is being accepted."""
        return bool(len(self.generations) or self._being_accepted)

    @property
    def has_room(self) -> bool:
        """Whether one more response can be generated or queued here."""
        taken = self.generations.without_parked + self._being_accepted
        return not self.draining and taken < self._limits.messages_per_node

    def check(self, line: Line) -> None:
        """Check that one more message of this line can be accepted.

        Raises:
            RateLimited: the tenant or the node has as many as allowed.
            Overloaded: this node is draining.
        """
        if self.draining:
            raise Overloaded(
                "this node is leaving; the message was not accepted, send it again",
                code="draining",
                retry_after_ms=1000,
            )
        most = self._limits.messages_in_flight_per_tenant
        if self._quotas.bounds_answers_of(line.tenant):
            most = None  # the tenant's record has a bound of its own
        if most is not None and self._in_flight_of_tenant[line.tenant] >= most:
            raise RateLimited(
                "this tenant has as many messages in flight as it may have; the message was not "
                "accepted, send it again later",
                code="tenant_in_flight",
                retry_after_ms=1000,
            )
        if not self.has_room and not self.generations.can_displace_for(line):
            self._refused.value += 1
            raise RateLimited(
                "the queue is full; the message was not accepted, send it again later",
                code="queue_full",
                retry_after_ms=2000,
            )

    def reserve(
        self, stream: ResponseStream, message: IncomingMessage, demand: TokenDemand
    ) -> None:
        """Charge and count a message that is being accepted.

        On a full node, the newest waiting answer of the sender with most waiting is ended for it.
        No cancellation restores that answer. `confirm_reservation` or `cancel_reservation` follows.

        Raises:
            RateLimited: its tenant, key or user has used what they may.
        """
        line, charge = message.line, self._quotas.charge(message.payer, demand, self._monotonic())
        if not self.has_room:
            self.generations.displace_for(line)
        self.count_in_flight(stream, message.kind, line, charge)
        self._being_accepted += 1

    def confirm_reservation(self) -> None:
        """Keep a reservation: the message was accepted, and its generation counts from now on."""
        self._being_accepted -= 1

    def cancel_reservation(self, stream: ResponseStream) -> None:
        """Cancel a reservation: the message was not accepted."""
        self._being_accepted -= 1
        self._in_flight[stream].charge.cancel(self._monotonic())
        self.stop_counting(stream)

    def count_in_flight(
        self, stream: ResponseStream, kind: MessageKind, line: Line, charge: Charge
    ) -> None:
        """Count a message in flight. Conversations count their own."""
        limiting = None if kind.limited_as is None else self.limiting(stream.channel, kind)
        self._in_flight[stream] = _InFlight(kind, line, charge)
        self._in_flight_of_tenant[line.tenant] += 1
        if limiting is not None:
            limiting.in_flight += 1

    def stop_counting(self, stream: ResponseStream) -> None:
        """Stop counting a message. A second call changes nothing."""
        if stream not in self._in_flight:
            return
        kind, line, charge = self._in_flight.pop(stream)
        _settle(charge, stream, self._monotonic())
        if kind.limited_as is not None:
            self.limiting(stream.channel, kind).in_flight -= 1
        self._in_flight_of_tenant[line.tenant] -= 1
        if not self._in_flight_of_tenant[line.tenant]:
            del self._in_flight_of_tenant[line.tenant]

    @contextmanager
    def ended_on_failure(
        self, stream: ResponseStream, conversation: Conversation
    ) -> Iterator[None]:
        """End a stored response with an error if the block, which begins its generation, fails.

        Its reader receives the error, and nothing is counted in flight.
        """
        in_flight = conversation.in_flight
        try:
            yield
        except BaseException:
            self._in_flight[stream].charge.cancel(self._monotonic())
            self._end_with(internal_error(), stream)
            self.stop_counting(stream)
            conversation.in_flight = in_flight
            conversation.is_stale = True
            raise

    def _end_with(self, error: EvenflowError, stream: ResponseStream) -> None:
        generation = self.generations.of(stream.response_id)
        if generation is not None and generation.stream is stream:
            generation.fail(error)
            return
        self.request_memory.end(stream)
        if not stream.log.closed:
            stream.fail(error.to_object())
        if self.responses.of_any_session(stream.response_id) is stream:
            self.responses.ended(stream)

    def limiting(self, channel: Channel, kind: MessageKind) -> Conversation:
        """The conversation whose limits apply to the channel's messages."""
        if kind.limited_as is not None:
            return self.conversations.open(kind.limited_as, self._monotonic(), CHAT)
        return self.conversations.open(channel, self._monotonic(), kind)

    def lose(self, stream: ResponseStream) -> None:
        """Drop a response that another node owns now. Its readers continue there."""
        generation = self.generations.of(stream.response_id)
        if generation is not None and generation.stream is stream:
            generation.hand_over()
        conversation = self.conversations.get(stream.channel)
        if conversation is not None:
            conversation.is_stale = True
        self.responses.drop(stream)
        stream.lose()

    def sweep(self, now: float) -> None:
        """Forget what is old, and start waiting generations."""
        self.generations.fill_slots()
        self.responses.sweep(now)
        self._shortened.value += self.responses.shorten_longest()
        self.conversations.sweep(now)
        self.generations.publish_positions(now)
        self._divide_deliveries()

    def _divide_deliveries(self) -> None:
        """Divide the deliveries among tenants, with fewer for those over their share."""
        intervals, tenants = self._intervals, self._tenants
        if not intervals.has_several_tenants:
            return
        readers = self.responses.readers()
        over = frozenset[str]()
        # Where no key is needed, names of tenants mean nothing.
        if not tenants.open_to_all:
            over = over_their_share(
                readers, lambda tenant: tenants.of(tenant).weight, intervals.over
            )
        intervals.divide(readers, over)

    def _release(self, generation: Generation) -> None:
        """Release what a generation counts for, once it has ended or was handed over."""
        stream, kind = generation.stream, generation.kind
        self.stop_counting(stream)
        self.request_memory.end(stream)
        conversation = self.conversations.get(stream.channel)
        if conversation is not None:
            answer = stream.answer if stream.is_remembered else ()
            conversation.response_ended(stream.message_id, answer, self._monotonic())
            conversation.is_stale |= not stream.state.terminal
            if not kind.repeatable:
                self.conversations.forget(stream.channel)
        # A replica may be in its place.
        if stream.state.terminal and self.responses.of_any_session(stream.response_id) is stream:
            self.responses.ended(stream)


def _settle(charge: Charge, stream: ResponseStream, now: float) -> None:
    """Correct the charge of an answer that is over on this node."""
    usage = charged_usage(stream)
    if not stream.state.terminal:
        charge.release()  # another node continues it
    elif usage is not None:
        charge.settle(usage.prompt_tokens, usage.completion_tokens, now)
    else:
        charge.settle(*pieces_used(stream), now)
