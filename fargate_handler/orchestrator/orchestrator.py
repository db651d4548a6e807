"""Accepts messages, and finds responses. Nothing here waits for a model."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

from evenflow.fargate_handler.orchestrator.acceptance import (
    CHECKS,
    Acceptance,
    AcceptanceParts,
    PendingMessage,
    Stage,
)
from evenflow.fargate_handler.orchestrator.budget_reservations import BudgetReservations
from evenflow.fargate_handler.orchestrator.client_tools import check_answered
from evenflow.fargate_handler.orchestrator.cluster_presence import ClusterPresence
from evenflow.fargate_handler.orchestrator.dispatcher import Dispatcher
from evenflow.fargate_handler.orchestrator.ended_sessions import EndedSessions, session_ended
from evenflow.fargate_handler.orchestrator.failover import OWNERS_EXHAUSTED, Failover
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.orchestrator.message_ledger import MessageLedger
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.replicas import Replicas
from evenflow.fargate_handler.orchestrator.session_messages import SessionMessages
from evenflow.fargate_handler.orchestrator.workload import Workload
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import (
    Conflict,
    EvenflowError,
    Gone,
    NotFound,
    Overloaded,
    is_for_want_of_room,
)
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.session.conversation import Conversation
from evenflow.stream_core.stores.session_store import NotAccepted

# Attempts to store a message while other nodes store theirs first.
_TRIES = 3
# Generations checked per turn of the event loop: about half a millisecond.
_CHECKED_PER_TURN = 256


class Submission(NamedTuple):
    """An accepted message's response. `duplicate`: whether it had been accepted before."""

    stream: ResponseStream
    duplicate: bool


class Orchestrator:
    """Accepts messages, and finds their responses, whichever node generates them.

    Args:
        workload: the messages that this node answers.
        ledger: stores accepted messages, for all nodes.
        replicas: the replicas of responses of other nodes.
        presence: the readers of responses.
        messages: the stored messages of sessions.
        ended_sessions: the sessions that were ended.
        usage: the budgets of tenants.
    """

    def __init__(
        self,
        context: NodeContext,
        *,
        workload: Workload,
        ledger: MessageLedger,
        dispatcher: Dispatcher,
        failover: Failover,
        replicas: Replicas,
        presence: ClusterPresence,
        messages: SessionMessages,
        ended_sessions: EndedSessions,
        usage: BudgetReservations,
    ) -> None:
        self.messages = messages
        self.ended_sessions = ended_sessions
        self.presence = presence
        self.responses = workload.responses
        self.request_memory = workload.request_memory
        self.memory = workload.memory
        self._workload = workload
        self._conversations = workload.conversations
        self._generations = workload.generations
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._failover = failover
        self._replicas = replicas
        self.usage = usage
        self._acceptance = Acceptance(
            AcceptanceParts(context, workload, dispatcher, ended_sessions, usage), CHECKS
        )
        self._tenants = context.tenants
        self._metrics = context.metrics
        self._rejections = context.metrics.ratio(catalogue.REFUSAL_RATE)
        self._monotonic = context.monotonic

    @property
    def busy(self) -> bool:
        """Whether any response has not ended, or any message is being accepted."""
        return self._workload.busy

    @property
    def answering(self) -> int:
        """The number of responses that have not ended."""
        return len(self._workload.generations)

    @property
    def generating(self) -> int:
        """The number of answers with a slot, and so a running model."""
        return self._generations.running

    @property
    def queued(self) -> int:
        """The number of messages that wait for a slot."""
        return self._generations.queued

    @property
    def draining(self) -> bool:
        """Whether this node is leaving, and so accepts no messages."""
        return self._workload.draining

    def stop_accepting(self) -> None:
        """Accept no messages and take no responses over from now on: this node is leaving."""
        self._workload.draining = True

    def accept_again(self) -> None:
        """Accept messages and take responses over again: this node stays after all."""
        self._workload.draining = False

    async def submit(self, message: IncomingMessage) -> Submission:
        """Accept a message. If it was accepted before, return its response.

        Raises:
            Conflict: it doesn't follow the session's last message, or another node has accepted it.
            RateLimited: messages come too fast, or a quota, a budget or the queue is full.
            InvalidRequest: a budget in dollars holds, and the model has no price.
            Overloaded: this node is leaving or its memory is full, or the ledger can't be written.
            Gone: it was answered, too long ago, or the session was ended.
            NotFound: the session's agent no longer exists.
            NotPermitted: the session's tenant has been removed.
            AuthenticationFailed: the key that opened the session is no longer valid.
        """
        pending = PendingMessage(message, self._monotonic())
        try:
            async with self._acceptance.passed(Stage.ARRIVAL, pending):
                return await self._submit(pending)
        except EvenflowError as rejection:
            self._metrics.labelled(catalogue.MESSAGES_REFUSED).count(rejection.code)
            self._rejections.part += is_for_want_of_room(rejection)
            raise
        finally:
            self._rejections.whole += 1

    async def _submit(self, pending: PendingMessage) -> Submission:
        message = pending.message
        async with (
            self._conversations.acceptance_lock(message.channel),
            self._acceptance.passed(Stage.IN_ORDER, pending),
        ):
            conversation = pending.conversation
            known = conversation.known_response(message.message_id)
            is_dead_letter = False
            if known is not None and self.responses.remembers(known):
                stream = await self._answer_to(known, message)
                is_dead_letter = _was_given_up(stream)
                if not is_dead_letter:
                    return Submission(stream, duplicate=True)
            await self._acceptance.check(Stage.NEW, pending)
            # The channel of a request that can't be repeated is new: no node has stored it.
            may_be_outdated = conversation.is_stale or conversation.needs_ledger(
                message.behind, message.replaces
            )
            has_read_store = is_dead_letter or (may_be_outdated and message.kind.repeatable)
            if has_read_store:
                await self._catch_up(conversation, message)
            for _ in range(_TRIES):
                try:
                    return await self._accept(pending)
                except Conflict:
                    if has_read_store:
                        raise
                except NotAccepted:
                    pass
                # Another node has accepted messages of this session meanwhile.
                await self._catch_up(conversation, message)
                has_read_store = True
            raise Overloaded(
                "other nodes are accepting messages of this session at the same time; this one "
                "was not accepted, send it again",
                code="session_contended",
                retry_after_ms=500,
            )

    async def _catch_up(self, conversation: Conversation, message: IncomingMessage) -> None:
        """Bring a conversation up to date with the ledger."""
        if message.kind.brings_conversation:
            stored = await self._ledger.ends(message.channel, message.message_id)
        else:
            stored = await self._ledger.load(message.channel)
        if stored.ended:
            raise session_ended()
        conversation.catch_up(stored, self._ledger.owner, message.behind, message.replaces)
        for entry in stored.messages:
            ours = entry.owner == self._ledger.owner and not entry.ended
            if ours and not self.responses.remembers(entry.response_id):
                # The store has it although its call failed here, and the client received an error.
                await self._failover.answer_accepted(entry.response_id)

    async def _accept(self, pending: PendingMessage) -> Submission:
        message = pending.message
        known = pending.conversation.known_response(message.message_id)
        if known is not None:
            return Submission(await self._answer_to(known, message), duplicate=True)
        now = self._monotonic()
        async with self._acceptance.passed(Stage.ATTEMPT, pending):
            await self._ledger.accept(message, pending.stream)
        self._begin(pending, now)
        return Submission(pending.stream, duplicate=False)

    def _begin(self, pending: PendingMessage, now: float) -> None:
        """Begin to answer a message that is stored."""
        message, stream, conversation = pending.message, pending.stream, pending.conversation
        with self._workload.ended_on_failure(stream, conversation):
            turns = conversation.accept(
                message.message_id,
                stream.response_id,
                message.text if message.request is None else None,
                now,
                message.replaces,
            )
            if not (message.kind.brings_conversation or message.terms.turns):
                stream.drop_history(conversation.left_out(turns), "server")
            self._dispatcher.begin(
                stream,
                message.kind,
                message.line,
                turns,
                message.terms,
                demand=pending.demand,
                since=pending.came_at,
                received=message.request,
            )

    async def _answer_to(self, response_id: str, message: IncomingMessage) -> ResponseStream:
        try:
            return await self.find(response_id, message.channel)
        except NotFound as error:
            raise Gone(
                f"message {message.message_id!r} was answered as {response_id}, which is no longer "
                "kept; "
                "ask again with a new message",
                code="response_expired",
            ) from error

    async def find(
        self, response_id: str, channel: Channel, *, check_ended: bool = True
    ) -> ResponseStream:
        """A response of the session, whichever node generates it.

        Args:
            check_ended: whether to check that its session was not ended.

        Raises:
            NotFound: there is no such response, or it is another session's.
            Gone: it ended too long ago, or the session was ended.
            Overloaded: the store can't be read, or the response is changing owners.
        """
        session = channel.own_session
        if session is not None and check_ended:
            if not self.responses.remembers(response_id):
                # Both at once: a reader that comes to another node waits for one round trip less.
                self._replicas.begin_look_up(response_id)
            await self.ended_sessions.check_in_store(session)
        for _ in range(_TRIES):
            try:
                return self.responses.get(response_id, channel)
            except (Gone, NotFound):
                if not await self._replicas.find(response_id, channel):
                    raise
        raise _changing_owners()

    async def message_text(self, response_id: str, channel: Channel) -> str | None:
        """The text of the message that has this response. None when it is no longer kept.

        Raises:
            Overloaded: the store can't be read.
        """
        return await self._ledger.text_of(channel, response_id)

    async def has_messages(self, channel: Channel) -> bool:
        """Whether a session has stored messages, and was not ended. No message is read.

        Raises:
            Overloaded: the store can't be read.
        """
        return await self._ledger.has_messages(channel)

    async def newest(self, channel: Channel) -> ResponseStream | None:
        """The response to the session's last message, whichever node generates it.

        Returns:
            None if there is no message, or its answer is no longer kept.

        Raises:
            Overloaded: the store can't be read, or the response is changing owners.
        """
        messages = (await self._ledger.ends(channel)).messages
        try:
            return await self.find(messages[-1].response_id, channel) if messages else None
        except (Gone, NotFound):
            return None

    async def epoch_on_record(self, stream: ResponseStream) -> int:
        """The response's epoch in the store. 0 for an unknown response.

        Raises:
            Overloaded: the store can't be read.
        """
        return await self._replicas.epoch_on_record(stream.response_id)

    def last_message_id(self, channel: Channel) -> str | None:
        """The id of the session's last accepted message. None if there is none."""
        conversation = self._conversations.get(channel)
        return conversation.last_message_id if conversation else None

    async def cancel(self, stream: ResponseStream) -> ResponseState:
        """Cancel a response and stop its model. One that has ended stays unchanged.

        Returns:
            The state of the response afterwards.

        Raises:
            Overloaded: the node that generates it can't be reached.
        """
        generation = self._generations.of(stream.response_id)
        if generation is not None and generation.stream is stream:
            generation.cancel()
        elif not stream.is_owned_here and not stream.log.closed:
            return await self._replicas.cancel(stream)
        return stream.state

    async def take_result(self, stream: ResponseStream, call_id: str, text: str) -> None:
        """Take the result of a call from the client, with which the answer continues.

        Raises:
            Conflict: the call is not open.
            Overloaded: the response's owner can't be reached, or is changing.
        """
        generation = self._generations.of(stream.response_id)
        if stream.log.closed:
            check_answered(stream.log, call_id)
        elif generation is not None and generation.stream is stream:
            generation.take_result(call_id, text)
        elif not stream.is_owned_here:
            await self._replicas.take_result(stream, call_id, text)
        else:
            raise _changing_owners()

    async def end_session(self, channel: Channel) -> None:
        """End a session: what runs is cancelled, and all that is kept of it is deleted.

        Requests with its token in other protocols are cancelled, too. They cannot be read any more,
        and they expire by themselves.

        Raises:
            Overloaded: the store cannot be reached. Another call continues with the rest.
        """
        async with self._conversations.acceptance_lock(channel):
            messages = await self.messages.end(channel)
            self._conversations.forget(channel)
        self.ended_sessions.note_end(channel)
        for generation in self._generations:
            if generation.stream.channel.own_session == channel:
                generation.cancel()
        for message in messages:
            if not message.ended:
                with suppress(NotFound, Gone, Overloaded):
                    stream = await self.find(message.response_id, channel, check_ended=False)
                    await self.cancel(stream)
        await self.messages.delete_answers(messages)
        for stream in tuple(self.responses.of(channel)):
            self.responses.drop(stream)

    def check_access(self, tenant_id: str, key_id: str, session: Channel | None) -> None:
        """Check that a tenant, its key and a session are still valid, as far as this node knows.

        Args:
            key_id: the key that opened the session or sent the request. Empty: none.
            session: None: there is no session's token.

        Raises:
            AuthenticationFailed: the key is no longer valid.
            NotPermitted: the tenant was removed.
            Gone: the session was ended.
        """
        self._tenants.check_valid(tenant_id, key_id)
        if session is not None:
            self.ended_sessions.check(session)

    async def cancel_revoked(self) -> None:
        """Cancel the generations whose session, tenant or key is no longer valid."""
        sessions = {it.stream.channel.own_session for it in self._generations}
        await self.ended_sessions.refresh([each for each in sessions if each is not None])
        for number, generation in enumerate(self._generations):
            if not number % _CHECKED_PER_TURN:
                await asyncio.sleep(0)
            stream, channel = generation.stream, generation.stream.channel
            try:
                self.check_access(channel.tenant, stream.figures.key, channel.own_session)
            except EvenflowError:
                generation.cancel()

    def lose(self, stream: ResponseStream) -> None:
        """Drop a response that another node owns now. Its readers continue there."""
        self._workload.lose(stream)

    def sweep(self, now: float) -> None:
        """Drop what has expired. Called about once a second."""
        self._workload.sweep(now)
        self.presence.sweep()
        self._replicas.sweep(now, self.presence)
        self._dispatcher.upstreams.log_changes()

    def end_minute(self, now: float) -> None:
        """Count what is counted at the end of a minute."""
        self._generations.end_minute(now)


def _changing_owners() -> Overloaded:
    return Overloaded(
        "this response is changing owners; nothing was changed, send the request again",
        code="response_elsewhere",
        retry_after_ms=500,
    )


def _was_given_up(stream: ResponseStream) -> bool:
    """Whether its message is a dead letter. That may have another response since."""
    return stream.error is not None and stream.error["code"] == OWNERS_EXHAUSTED
