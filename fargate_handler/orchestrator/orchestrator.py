"""Takes messages in and sees each to its end. Nothing here waits for a model."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fargate_handler.metrics import Metrics
from fargate_handler.orchestrator.conversations import Conversations
from fargate_handler.orchestrator.fair_queue import FairQueue
from fargate_handler.orchestrator.generation import Generation
from fargate_handler.orchestrator.ingest_event import IngestEvent
from fargate_handler.orchestrator.message_ledger import MessageLedger
from fargate_handler.orchestrator.responses import Responses
from fargate_handler.token_sources.port import TokenSource
from stream_core import metric_catalogue as catalogue
from stream_core.channel import Channel
from stream_core.conversation import Conversation, Turn
from stream_core.delivery_clock import DeliveryClock
from stream_core.errors import Conflict, EvenflowError, NotFound, Overloaded, RateLimited
from stream_core.limits import Limits
from stream_core.response_state import ResponseState
from stream_core.response_stream import ResponseStream
from stream_core.session_store import LedgerEntry, NotAccepted

# How often another task may be quicker before a client is asked to try again.
_TRIES = 3


class Submission(NamedTuple):
    """An accepted message. `duplicate`: it was accepted before, and this is the same response."""

    stream: ResponseStream
    duplicate: bool


class Orchestrator:
    """Admission, queue and workers.

    Args:
        fallback_text: the answer when the model cannot; empty for an error instead.
        monotonic: seconds.
        ledger: where accepted messages are kept for other tasks; without one, this task is the only one.
    """

    def __init__(
        self,
        *,
        source: TokenSource,
        clock: DeliveryClock,
        limits: Limits,
        metrics: Metrics,
        fallback_text: str,
        monotonic: Callable[[], float],
        ledger: MessageLedger | None = None,
    ) -> None:
        self.responses = Responses(limits)
        self._ledger = ledger
        self._source = source
        self._clock = clock
        self._limits = limits
        self._metrics = metrics
        self._fallback_text = fallback_text
        self._monotonic = monotonic
        self._conversations = Conversations(limits)
        self._queue: FairQueue[Generation] = FairQueue(limits.queue_depth)
        self._running: dict[str, Generation] = {}
        self._waiting: dict[str, Generation] = {}
        self._in_flight_of_tenant: Counter[str] = Counter()
        self._accepting: Counter[Channel] = Counter()
        self._being_accepted = 0
        self._left_with: EvenflowError | None = None
        self.draining = False
        metrics.gauge(catalogue.QUEUE_DEPTH, lambda: len(self._queue))
        metrics.gauge(catalogue.GENERATIONS_RUNNING, lambda: len(self._running))
        metrics.gauge(catalogue.RESPONSES_HELD, lambda: len(self.responses))

    @property
    def busy(self) -> bool:
        """Whether any response has not ended, or any message is being accepted."""
        return bool(self._running or self._waiting or self._being_accepted)

    async def submit(self, event: IngestEvent) -> Submission:
        """Accept a message, or return the response that it has already.

        Raises:
            Conflict: it doesn't follow the session's last message, or another task answers it.
            RateLimited: a quota, a rate, or the queue is full.
            Overloaded: this node is leaving, or the ledger can't be written.
            Gone: it was answered, too long ago.
        """
        channel = event.channel
        with self._waiting_for_turn(channel):
            return await self._submit(event, channel)

    @contextmanager
    def _waiting_for_turn(self, channel: Channel) -> Iterator[None]:
        """Counts the messages of a session that are being accepted: each holds its text while the ledger takes its time."""
        if self._accepting[channel] >= self._limits.messages_waiting_per_session:
            raise RateLimited(
                "as many messages of this session are being accepted as may be; this one was not, send it again later",
                code="session_in_flight",
                retry_after_ms=1000,
            )
        self._accepting[channel] += 1
        try:
            yield
        finally:
            self._accepting[channel] -= 1
            if not self._accepting[channel]:
                del self._accepting[channel]

    async def _submit(self, event: IngestEvent, channel: Channel) -> Submission:
        async with self._conversations.turn(channel):
            fresh = self._conversations.get(channel) is None
            conversation = self._conversations.open(channel, self._monotonic())
            known = conversation.known_response(event.message_id)
            if known is not None and self.responses.remembers(known):
                return Submission(self.responses.get(known, channel), duplicate=True)
            conversation.check_rate(self._monotonic())
            if fresh or conversation.stale:
                await self._catch_up(conversation, channel)
                fresh = True
            for _ in range(_TRIES):
                try:
                    return await self._accept(conversation, event)
                except Conflict:
                    if fresh or self._ledger is None:
                        raise
                except NotAccepted:
                    pass
                # Another task has accepted messages of this session since we looked.
                await self._catch_up(conversation, channel)
                fresh = True
            raise Overloaded(
                "this session's messages are being accepted elsewhere at the same time; this one was not, send it again",
                code="session_contended",
                retry_after_ms=500,
            )

    async def _catch_up(self, conversation: Conversation, channel: Channel) -> None:
        """Read the ledger, where there is one."""
        if self._ledger is not None:
            stored = await self._ledger.load(channel)
            conversation.catch_up(stored, self._ledger.owner)
            for entry in stored.entries:
                known = self.responses.remembers(entry.response_id)
                if not known and await self._ledger.is_ours_to_begin(entry):
                    self._begin_late(conversation, channel, entry)

    def _begin_late(self, conversation: Conversation, channel: Channel, entry: LedgerEntry) -> None:
        """Answer a message that we put on record without hearing that we had."""
        self._check_node(channel.tenant)
        stream = self._new_stream(entry.response_id, entry.message_id, channel)
        self._in_flight_of_tenant[channel.tenant] += 1
        if self._ledger is not None:
            self._ledger.record_late(stream)
        self._begin(stream, conversation.begin_late(entry.message_id, entry.text), self._limits.grace_seconds)

    async def _accept(self, conversation: Conversation, event: IngestEvent) -> Submission:
        known = conversation.known_response(event.message_id)
        if known is not None:
            return Submission(self._held(known, event.channel), duplicate=True)
        now, tenant = self._monotonic(), event.channel.tenant
        self._check_node(tenant)
        conversation.check(event.message_id, event.previous_message_id)
        stream = self._new_stream(f"rsp_{secrets.token_hex(16)}", event.message_id, event.channel)
        self._in_flight_of_tenant[tenant] += 1
        self._being_accepted += 1
        try:
            if self._ledger is not None:
                await self._ledger.accept(event, stream)
        except BaseException:
            self._no_longer_in_flight(tenant)
            raise
        finally:
            self._being_accepted -= 1
        turns = conversation.accept(event.message_id, stream.response_id, event.text, now)
        self._begin(stream, turns, event.grace_seconds)
        return Submission(stream, duplicate=False)

    def _held(self, response_id: str, channel: Channel) -> ResponseStream:
        try:
            return self.responses.get(response_id, channel)
        except NotFound:
            if self._ledger is None:
                raise
            raise Conflict(
                f"this message was accepted by another task: GET /chat/message/{response_id} has its answer",
                code="response_elsewhere",
                response_id=response_id,
            ) from None

    def _new_stream(self, response_id: str, message_id: str, channel: Channel) -> ResponseStream:
        return ResponseStream(
            response_id=response_id,
            message_id=message_id,
            channel=channel,
            clock=self._clock,
            limits=self._limits,
            monotonic=self._monotonic,
        )

    def _begin(self, stream: ResponseStream, turns: tuple[Turn, ...], grace_seconds: float) -> None:
        self.responses.add(stream)
        generation = Generation(
            stream=stream,
            turns=turns,
            source=self._source,
            clock=self._clock,
            limits=self._limits,
            grace_seconds=grace_seconds,
            fallback_text=self._fallback_text,
            monotonic=self._monotonic,
            on_attempt=self._attempted_again,
            on_end=self._ended,
        )
        self._run_or_queue(generation)
        if self._left_with is not None:
            generation.interrupt(self._left_with)

    def last_message_id(self, channel: Channel) -> str | None:
        """The session's last accepted message, if there is one."""
        conversation = self._conversations.get(channel)
        return conversation.last_message_id if conversation else None

    def cancel(self, stream: ResponseStream) -> None:
        """Stop the model and end the response as cancelled; one that has ended stays as it is."""
        generation = self._running.get(stream.response_id) or self._waiting.get(stream.response_id)
        if generation is not None:
            generation.cancel()

    def interrupt_all(self, error: EvenflowError) -> None:
        """End everything that runs or waits, or is still to begin, with `error`: the drain's time is over."""
        self._left_with = error
        for generation in (*self._waiting.values(), *self._running.values()):
            generation.interrupt(error)

    def interrupt(self, stream: ResponseStream, error: EvenflowError) -> None:
        """End a response with `error`; one that has ended stays as it is."""
        generation = self._running.get(stream.response_id) or self._waiting.get(stream.response_id)
        if generation is not None:
            generation.interrupt(error)

    def sweep(self, now: float) -> None:
        """Forget what is old; about once a second."""
        self.responses.sweep(now)
        self._conversations.sweep(now)

    # -- inside --------------------------------------------------------------------------------------------------

    def _check_node(self, tenant: str) -> None:
        if self.draining:
            raise Overloaded(
                "this node is leaving; the message was not accepted, send it again",
                code="draining",
                retry_after_ms=1000,
            )
        if self._in_flight_of_tenant[tenant] >= self._limits.messages_in_flight_per_tenant:
            raise RateLimited(
                "this tenant has as many messages in flight as it may; the message was not accepted, send it again later",
                code="tenant_in_flight",
                retry_after_ms=1000,
            )
        taken = len(self._running) + len(self._queue) + self._being_accepted
        if taken >= self._limits.generations_per_node + self._limits.queue_depth:
            self._metrics.counter(catalogue.QUEUE_REFUSED).value += 1
            raise RateLimited(
                "the queue is full; the message was not accepted, send it again later",
                code="queue_full",
                retry_after_ms=2000,
            )

    @property
    def _full(self) -> bool:
        return len(self._running) >= self._limits.generations_per_node

    def _run_or_queue(self, generation: Generation) -> None:
        stream = generation.stream
        if not self._full:
            self._start(generation)
            return
        self._waiting[stream.response_id] = generation
        self._queue.put(stream.channel.tenant, generation)

    def _start(self, generation: Generation) -> None:
        stream = generation.stream
        self._waiting.pop(stream.response_id, None)
        self._running[stream.response_id] = generation
        waited = self._monotonic() - stream.created_at
        self._metrics.distribution(catalogue.QUEUE_WAIT).record(waited * 1000)
        generation.start()

    def _attempted_again(self) -> None:
        self._metrics.counter(catalogue.GENERATION_RETRIES).value += 1

    def _ended(self, generation: Generation) -> None:
        stream = generation.stream
        if self._waiting.pop(stream.response_id, None) is not None:
            self._queue.remove(stream.channel.tenant, generation)
        self._running.pop(stream.response_id, None)
        self._release(stream)
        self._measure(generation)
        while not self._full and (waiting := self._queue.take()) is not None:
            self._start(waiting)

    def _release(self, stream: ResponseStream) -> None:
        self._no_longer_in_flight(stream.channel.tenant)
        conversation = self._conversations.get(stream.channel)
        if conversation is not None:
            answered = stream.state is ResponseState.COMPLETED and not stream.degraded
            conversation.response_ended(stream.message_id, stream.log.text if answered else "", self._monotonic())
        self.responses.ended(stream)

    def _no_longer_in_flight(self, tenant: str) -> None:
        self._in_flight_of_tenant[tenant] -= 1
        if not self._in_flight_of_tenant[tenant]:
            del self._in_flight_of_tenant[tenant]

    def _measure(self, generation: Generation) -> None:
        stream, metrics = generation.stream, self._metrics
        outcome = {
            ResponseState.COMPLETED: catalogue.RESPONSES_COMPLETED,
            ResponseState.ERROR: catalogue.RESPONSES_FAILED,
            ResponseState.CANCELLED: catalogue.RESPONSES_CANCELLED,
        }[stream.state]
        metrics.counter(outcome).value += 1
        metrics.counter(catalogue.GENERATIONS_DEGRADED).value += stream.degraded
        metrics.counter(catalogue.TOKENS_GENERATED).value += stream.tokens
        if stream.tokens and stream.first_delta_at is not None and stream.ended_at is not None:
            metrics.distribution(catalogue.FIRST_TOKEN).record((stream.first_delta_at - stream.created_at) * 1000)
            if stream.tokens > 1:
                gap = (stream.ended_at - stream.first_delta_at) / (stream.tokens - 1)
                metrics.distribution(catalogue.TOKEN_GAP).record(gap * 1000)
