"""Takes messages in and sees each to its end. Nothing here waits for a model."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fargate_handler.metrics import Metrics
from fargate_handler.orchestrator.agent_requests import AgentRequests
from fargate_handler.orchestrator.conversations import Conversations
from fargate_handler.orchestrator.followed_responses import FollowedResponses
from fargate_handler.orchestrator.generation import Generation
from fargate_handler.orchestrator.generations import Generations
from fargate_handler.orchestrator.held_requests import HeldRequests
from fargate_handler.orchestrator.ingest_event import IngestEvent
from fargate_handler.orchestrator.message_ledger import MessageLedger
from fargate_handler.orchestrator.responses import Responses
from fargate_handler.orchestrator.succession import ATTEMPTS_EXHAUSTED, Inheritance, Succession
from fargate_handler.orchestrator.whole_request import WholeRequest, can_go_on
from fargate_handler.token_sources.port import TokenSource
from stream_core import metric_catalogue as catalogue
from stream_core.channel import Channel
from stream_core.conversation import REMEMBERED, Conversation, Turn
from stream_core.delivery_clock import DeliveryClock
from stream_core.errors import Conflict, EvenflowError, Gone, NotFound, Overloaded, RateLimited
from stream_core.limits import Limits
from stream_core.message_kind import CHAT, MessageKind
from stream_core.message_terms import MessageTerms
from stream_core.response_state import ResponseState
from stream_core.response_stream import ResponseStream
from stream_core.session_store import NotAccepted

# How often another task may be quicker before a client is asked to try again.
_TRIES = 3


class Submission(NamedTuple):
    """An accepted message. `duplicate`: it was accepted before, and this is the same response."""

    stream: ResponseStream
    duplicate: bool


class Orchestrator:
    """Admission, queue and generations.

    Args:
        fallback_text: the answer when the model cannot; empty for an error instead.
        monotonic: seconds.
        ledger: where accepted messages are kept for other tasks; without one, this task is the only one.
        in_force: whether what this task answers is its own.
        requests: what agents add to a message.
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
        in_force: Callable[[], bool] = lambda: True,
        requests: AgentRequests | None = None,
    ) -> None:
        self.responses = Responses(limits)
        self.held_requests = HeldRequests(limits.requests_held_bytes)
        self.elsewhere: FollowedResponses | None = None
        """The responses of other tasks, where there are any."""
        self.succession: Succession | None = None
        """What takes over from lost tasks, where there are others."""
        self._in_force = in_force
        self._requests = requests or AgentRequests()
        self._ledger = ledger
        self._source = source
        self._clock = clock
        self._limits = limits
        self._metrics = metrics
        self._fallback_text = fallback_text
        self._monotonic = monotonic
        self._conversations = Conversations(limits)
        self._generations = Generations(limits, metrics, monotonic, self._release)
        self._in_flight_of_tenant: Counter[str] = Counter()
        self._accepting: Counter[Channel] = Counter()
        self._being_accepted = 0
        self.draining = False
        metrics.gauge(catalogue.RESPONSES_HELD, lambda: len(self.responses))
        metrics.gauge(catalogue.RESPONSES_FOLLOWED, lambda: len(self.elsewhere) if self.elsewhere is not None else 0)

    @property
    def busy(self) -> bool:
        """Whether any response has not ended, or any message is being accepted."""
        return bool(len(self._generations) or self._being_accepted)

    async def submit(self, event: IngestEvent) -> Submission:
        """Accept a message, or return the response that it has already.

        Raises:
            Conflict: it doesn't follow the session's last message, or another task answers it.
            RateLimited: a quota, a rate, or the queue is full.
            Overloaded: this node is leaving, or the ledger can't be written.
            Gone: it was answered, too long ago.
            NotFound: the session's agent is no longer there.
        """
        channel = event.channel
        try:
            with self._waiting_for_turn(event.kind.limited_as or channel):
                return await self._submit(event, channel)
        except EvenflowError as refusal:
            self._metrics.labelled(catalogue.MESSAGES_REFUSED).count(refusal.code)
            raise

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
            conversation = self._conversations.open(channel, self._monotonic(), event.kind)
            known = conversation.known_response(event.message_id)
            given_up = known is not None and self._was_given_up(known)
            if known is not None and self.responses.remembers(known) and not given_up:
                return Submission(self.responses.get(known, channel), duplicate=True)
            self._limiting(channel, event.kind).check_rate(self._monotonic())
            fresh = conversation.stale or given_up
            if fresh:
                await self._catch_up(conversation, channel)
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

    def _was_given_up(self, response_id: str) -> bool:
        """Whether it went to the dead letters: its message may have been given another response since."""
        stream = self.responses.held(response_id)
        return stream is not None and stream.error is not None and stream.error["code"] == ATTEMPTS_EXHAUSTED

    async def _catch_up(self, conversation: Conversation, channel: Channel) -> None:
        """Read the ledger, where there is one."""
        if self._ledger is not None:
            stored = await self._ledger.load(channel)
            conversation.catch_up(stored, self._ledger.owner)
            for entry in stored.entries:
                ours = entry.owner == self._ledger.owner and not entry.ended
                if ours and self.succession is not None and not self.responses.remembers(entry.response_id):
                    # We put it on record without hearing that we had: its sender heard that it was not accepted.
                    await self.succession.begin_late(entry.response_id)

    async def _accept(self, conversation: Conversation, event: IngestEvent) -> Submission:
        known = conversation.known_response(event.message_id)
        if known is not None:
            return Submission(await self._answer_to(known, event), duplicate=True)
        now, channel = self._monotonic(), event.channel
        self._check_node(channel.tenant)
        self._requests.check(channel, event.kind)
        conversation.check(event.message_id, event.previous_message_id, event.replaces)
        self._limiting(channel, event.kind).check_in_flight()
        stream = self.new_stream(f"rsp_{secrets.token_hex(16)}", event.message_id, channel)
        self._now_in_flight(channel, event.kind)
        self._being_accepted += 1
        try:
            if self._ledger is not None:
                await self._ledger.accept(event, stream)
        except BaseException:
            self._no_longer_in_flight(channel, event.kind)
            raise
        finally:
            self._being_accepted -= 1
        turns = conversation.accept(event.message_id, stream.response_id, event.text, now, event.replaces)
        grace_seconds = event.kind.grace_seconds
        if grace_seconds is None:
            grace_seconds = self._limits.grace_seconds
        self._begin(stream, event.kind, turns, event.terms, grace_seconds)
        return Submission(stream, duplicate=False)

    async def _answer_to(self, response_id: str, event: IngestEvent) -> ResponseStream:
        try:
            return await self.find(response_id, event.channel)
        except NotFound as error:
            raise Gone(
                f"message {event.message_id!r} was answered as {response_id}, which is no longer held; "
                "ask again with a new message",
                code="response_expired",
            ) from error

    def new_stream(self, response_id: str, message_id: str, channel: Channel) -> ResponseStream:
        """An empty response on this task's clock."""
        return ResponseStream(
            response_id=response_id,
            message_id=message_id,
            channel=channel,
            clock=self._clock,
            limits=self._limits,
            monotonic=self._monotonic,
        )

    def _begin(
        self,
        stream: ResponseStream,
        kind: MessageKind,
        turns: tuple[Turn, ...],
        terms: MessageTerms,
        grace_seconds: float,
    ) -> None:
        self.responses.add(stream)
        if not stream.readers:
            # Only now can one come, however long the ledger took.
            stream.unread_since = self._monotonic()
        if kind.brings_conversation:
            self.held_requests.begin(stream, turns[-1].text.encode())
        asked, limits, gone = self._what_is_asked(stream.channel, kind, turns, terms)
        generation = Generation(
            stream=stream,
            kind=kind,
            asked=asked,
            source=self._source,
            clock=self._clock,
            limits=limits,
            grace_seconds=grace_seconds,
            fallback_text=self._fallback_text if kind.falls_back else "",
            continues=lambda: self._source.continues and can_go_on(kind, asked, stream.log.entries),
            monotonic=self._monotonic,
            in_force=self._in_force,
            on_attempt=self._attempted_again,
            on_end=self._generations.ended,
        )
        self._generations.add(generation)
        if gone is not None:
            generation.interrupt(gone)

    def _what_is_asked(
        self, channel: Channel, kind: MessageKind, turns: tuple[Turn, ...], terms: MessageTerms
    ) -> tuple[WholeRequest, Limits, NotFound | None]:
        """What the model is asked and how long it has; an error where the agent has gone since the message was accepted."""
        try:
            asked = self._requests.asked(channel, turns, terms, kind)
            return asked, self._requests.limits(channel, terms, self._limits, kind), None
        except NotFound as gone:
            return WholeRequest(turns), self._limits, gone

    async def find(self, response_id: str, channel: Channel) -> ResponseStream:
        """A response of the session, whichever task generates it.

        Raises:
            NotFound: no such response, or another session's (which is not told apart).
            Gone: it ended too long ago.
            Overloaded: where it is can't be told now.
        """
        for _ in range(_TRIES):
            try:
                return self.responses.get(response_id, channel)
            except NotFound:
                if self.elsewhere is None or not await self.elsewhere.find(response_id, channel):
                    raise
        raise Overloaded(
            "this response is changing hands; nothing was changed, ask again",
            code="response_elsewhere",
            retry_after_ms=500,
        )

    @property
    def has_room(self) -> bool:
        """Whether one more response can be generated, or wait for it, here."""
        taken = len(self._generations) + self._being_accepted
        return not self.draining and taken < self._limits.messages_per_node

    def inherit(self, left: Inheritance) -> bool:
        """Go on with a response that is this task's from now on; whether it didn't already.

        Raises:
            RateLimited: there is no room for it, or for its session.
        """
        response_id, channel, now = left.head.response_id, left.channel, self._monotonic()
        if self._ledger is None or self._ledger.writes(left.lease):
            return False  # nobody has lost it; it may have been generated to its end, and not be on record yet
        if (stale := self._generations.of(response_id)) is not None:
            stale.abandon()  # under a lease that was lost without our hearing of it
        if not self.has_room:
            raise RateLimited("no room to take this response over now", code="queue_full")
        kind = MessageKind.from_text(left.message.kind)
        conversation = self._conversations.open(channel, now, kind)
        self._now_in_flight(channel, kind)
        if conversation.known_response(left.message.message_id) != response_id:
            conversation.catch_up(left.conversation, self._ledger.owner)
        stream = self.new_stream(response_id, left.message.message_id, channel)
        entries = left.stored.entries
        if entries or left.lease.epoch > 1:
            stream.take_up(entries, left.lease.epoch, left.began_at)
        copy = self.responses.held(response_id)
        if copy is not None:
            self.responses.drop(copy)
        self._ledger.go_on(stream, left.lease, len(entries))
        turns = conversation.begin_late(left.message.message_id, left.message.text)
        terms = MessageTerms.from_text(left.message.terms)
        # However short its own grace is: its readers have to find this task first.
        self._begin(stream, kind, turns, terms, self._limits.grace_seconds)
        if copy is not None:
            copy.lose()
        return True

    def last_message_id(self, channel: Channel) -> str | None:
        """The session's last accepted message, if there is one."""
        conversation = self._conversations.get(channel)
        return conversation.last_message_id if conversation else None

    async def cancel(self, stream: ResponseStream) -> ResponseState:
        """Stop the model and end the response as cancelled; one that has ended stays as it is. Returns its state then.

        Raises:
            Overloaded: the task that generates it can't be told.
        """
        generation = self._generations.of(stream.response_id)
        if generation is not None and generation.stream is stream:
            generation.cancel()
        elif self.elsewhere is not None and stream.via != "owner" and not stream.log.closed:
            return await self.elsewhere.cancel(stream)
        return stream.state

    def interrupt_all(self, error: EvenflowError) -> None:
        """End everything that runs or waits, or is still to begin, with `error`: the drain's time is over."""
        self._generations.interrupt_all(error)

    def hand_over_all(self) -> None:
        """Stop everything that runs or waits, or is still to begin, and leave it as it is: other tasks go on with it."""
        self._generations.hand_over_all()

    def lose(self, stream: ResponseStream) -> None:
        """Another task goes on with this response; its readers here follow it there."""
        generation = self._generations.of(stream.response_id)
        if generation is not None and generation.stream is stream:
            generation.abandon()
        conversation = self._conversations.get(stream.channel)
        if conversation is not None:
            conversation.stale = True
        self.responses.drop(stream)
        stream.lose()

    def sweep(self, now: float) -> None:
        """Forget what is old; about once a second."""
        self.responses.sweep(now)
        if self.elsewhere is not None:
            self.elsewhere.sweep(now)
        self._conversations.sweep(now)

    # -- inside --------------------------------------------------------------------------------------------------

    def _check_node(self, tenant: str) -> None:
        if self.draining:
            raise Overloaded(
                "this node is leaving; the message was not accepted, send it again",
                code="draining",
                retry_after_ms=1000,
            )
        most = self._limits.messages_in_flight_per_tenant
        if most is not None and self._in_flight_of_tenant[tenant] >= most:
            raise RateLimited(
                "this tenant has as many messages in flight as it may; the message was not accepted, send it again later",
                code="tenant_in_flight",
                retry_after_ms=1000,
            )
        if not self.has_room:
            self._metrics.counter(catalogue.QUEUE_REFUSED).value += 1
            raise RateLimited(
                "the queue is full; the message was not accepted, send it again later",
                code="queue_full",
                retry_after_ms=2000,
            )

    def _attempted_again(self) -> None:
        self._metrics.counter(catalogue.GENERATION_RETRIES).value += 1

    def _release(self, generation: Generation) -> None:
        stream, kind = generation.stream, generation.kind
        self._no_longer_in_flight(stream.channel, kind)
        self.held_requests.end(stream)
        conversation = self._conversations.get(stream.channel)
        if conversation is not None:
            answered = stream.state in REMEMBERED and not stream.degraded
            conversation.response_ended(stream.message_id, stream.log.text if answered else "", self._monotonic())
            conversation.stale |= not stream.state.terminal
            if not kind.repeatable:
                self._conversations.forget(stream.channel)
        # Another copy may have taken its place.
        if stream.state.terminal and self.responses.held(stream.response_id) is stream:
            self.responses.ended(stream)

    def _limiting(self, channel: Channel, kind: MessageKind) -> Conversation:
        """The conversation under whose limits the channel's messages are."""
        if kind.limited_as is not None:
            return self._conversations.open(kind.limited_as, self._monotonic(), CHAT)
        return self._conversations.open(channel, self._monotonic(), kind)

    def _now_in_flight(self, channel: Channel, kind: MessageKind) -> None:
        """Count a message; a conversation counts its own by itself."""
        if kind.limited_as is not None:
            self._limiting(channel, kind).in_flight += 1
        self._in_flight_of_tenant[channel.tenant] += 1

    def _no_longer_in_flight(self, channel: Channel, kind: MessageKind) -> None:
        if kind.limited_as is not None:
            self._limiting(channel, kind).in_flight -= 1
        self._in_flight_of_tenant[channel.tenant] -= 1
        if not self._in_flight_of_tenant[channel.tenant]:
            del self._in_flight_of_tenant[channel.tenant]
