"""The checks between a message and its model, in their order.

A message passes them all before it is stored. Quotas and budgets that a check reserves are given
back when a later one rejects the message; rates are not. `docs/limits.md` lists the checks with
their error codes, generated from `CHECKS`.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum, auto
from types import TracebackType
from typing import ClassVar, NamedTuple

from evenflow.fargate_handler.orchestrator.budget_reservations import BudgetReservations
from evenflow.fargate_handler.orchestrator.dispatcher import Dispatcher
from evenflow.fargate_handler.orchestrator.ended_sessions import EndedSessions
from evenflow.fargate_handler.orchestrator.fair_semaphore import FairSemaphore
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.request_memory import (
    Reading,
    memory_of_terms,
    memory_of_text,
)
from evenflow.fargate_handler.orchestrator.workload import Workload
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.bounds.memory_bound import EXCHANGE_BYTES
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.session.conversation import Conversation
from evenflow.stream_core.tenants.charges import Level, TokenDemand

# Messages that are written to the store at the same time.
_WRITTEN_AT_ONCE = 64


class Rejection(NamedTuple):
    """One reason to reject a message, as `docs/limits.md` shows it.

    Args:
        code: the error code.
        status: the HTTP status.
        limit: the setting or the record that has the limit, in Markdown. Empty: there is none.
        retry_after: when another try may pass. Empty: the same message never does.
    """

    code: str
    status: int
    limit: str = ""
    retry_after: str = ""


class Stage(Enum):
    """When a check runs."""

    ARRIVAL = auto()
    """Once, before the message waits for those of its session before it."""
    IN_ORDER = auto()
    """Once, when the messages of its session before it have been accepted or rejected."""
    NEW = auto()
    """Once, unless this node remembers its response: then its client receives that one. A repeated
    message that only the store knows counts as a new one here."""
    ATTEMPT = auto()
    """At each attempt to store the message: another node may have been quicker."""


class PendingMessage:
    """A message that is being checked, with what the checks find and reserve.

    Args:
        came_at: its arrival, in seconds on the monotonic clock.
    """

    __slots__ = ("came_at", "conversation", "demand", "memory", "message", "stream")

    conversation: Conversation
    """The conversation of its channel. Set by `ConversationMemory`."""
    stream: ResponseStream
    """Its response. Set by `ReserveQuotas`, as `demand` is."""
    demand: TokenDemand
    """The tokens that it asks for."""

    def __init__(self, message: IncomingMessage, came_at: float) -> None:
        self.message = message
        self.came_at = came_at
        self.memory: Reading | None = None
        """Its memory until it is accepted. None: the endpoint that parsed it has reserved it."""

    @property
    def session(self) -> Channel:
        """The session whose limits the message is under."""
        return self.message.kind.limited_as or self.message.channel


class AcceptanceParts(NamedTuple):
    """The parts of a node that checks need."""

    context: NodeContext
    workload: Workload
    dispatcher: Dispatcher
    ended_sessions: EndedSessions
    usage: BudgetReservations


class AcceptanceCheck(ABC):
    """One check. `commit` or `rollback` follows each `check` that has passed."""

    stage: ClassVar[Stage]
    rejections: ClassVar[Sequence[Rejection]] = ()

    def __init__(self, parts: AcceptanceParts) -> None:
        self._parts = parts

    @abstractmethod
    def check(self, pending: PendingMessage) -> Awaitable[None] | None:
        """Check a message, and reserve what it needs.

        Returns:
            The rest of the check, if that waits. It may raise, too. None: the message has passed.

        Raises:
            EvenflowError: the message is rejected. Nothing is reserved then.
        """

    def commit(self, pending: PendingMessage) -> None:  # noqa: B027 - most reserve nothing
        """All that ran under the stage has succeeded, also the stages inside it.

        Release what was only for the stage, and keep the rest.
        """

    def rollback(self, pending: PendingMessage) -> None:  # noqa: B027 - most reserve nothing
        """A later check, or the block under the stage, has failed: give everything back."""


class WaitingMessages(AcceptanceCheck):
    """Messages of one session that wait to be accepted, each with its text in memory."""

    stage = Stage.ARRIVAL
    rejections = (
        Rejection("session_in_flight", 429, "`EVENFLOW_MESSAGES_WAITING_PER_SESSION`", "1 s"),
    )

    def __init__(self, parts: AcceptanceParts) -> None:
        super().__init__(parts)
        self._waiting: Counter[Channel] = Counter()

    def check(self, pending: PendingMessage) -> None:
        session = pending.session
        limits = self._parts.context.limits
        if self._waiting[session] >= limits.messages_waiting_per_session:
            raise RateLimited(
                "too many messages of this session are being accepted; this one was not, send it "
                "again later",
                code="session_in_flight",
                retry_after_ms=1000,
            )
        self._waiting[session] += 1

    def commit(self, pending: PendingMessage) -> None:
        self.rollback(pending)

    def rollback(self, pending: PendingMessage) -> None:
        session = pending.session
        self._waiting[session] -= 1
        if not self._waiting[session]:
            del self._waiting[session]


class MemoryForMessage(AcceptanceCheck):
    """Memory for a chat's message until it is accepted.

    For a request, the intake of its body has reserved it.
    """

    stage = Stage.ARRIVAL
    rejections = (Rejection("node_memory", 503, "`EVENFLOW_REQUESTS_HELD_BYTES`", "1 s"),)

    def check(self, pending: PendingMessage) -> None:
        message = pending.message
        if message.kind.brings_conversation:
            return
        memory = Reading(self._parts.workload.request_memory)
        memory.grow_to(memory_of_text(message.text) + memory_of_terms(message.terms))
        pending.memory = memory

    def commit(self, pending: PendingMessage) -> None:
        self.rollback(pending)

    def rollback(self, pending: PendingMessage) -> None:
        if pending.memory is not None:
            pending.memory.release()


class SessionNotEnded(AcceptanceCheck):
    """The session of a request's token has not ended. For a chat the store checks that itself."""

    stage = Stage.ARRIVAL
    rejections = (Rejection("session_ended", 410),)

    def check(self, pending: PendingMessage) -> Awaitable[None] | None:
        session = pending.message.kind.limited_as
        return None if session is None else self._parts.ended_sessions.check_in_store(session)


class ConversationMemory(AcceptanceCheck):
    """Memory of this node for one more conversation. Idle conversations make room."""

    stage = Stage.IN_ORDER
    rejections = (
        Rejection("sessions_full", 429, "`EVENFLOW_SESSIONS_PER_NODE`", "5 s"),
        Rejection("node_memory", 503, "`EVENFLOW_CONVERSATIONS_HELD_BYTES`", "1 s"),
    )

    def check(self, pending: PendingMessage) -> None:
        message, parts = pending.message, self._parts
        pending.conversation = parts.workload.conversations.open(
            message.channel, parts.context.monotonic(), message.kind
        )


class MessageRate(AcceptanceCheck):
    """Messages of a session per second. Every new message counts, also one that is rejected."""

    stage = Stage.NEW
    rejections = (
        Rejection(
            "rate_limited", 429, "`EVENFLOW_MESSAGES_PER_SECOND`", "until one more is allowed"
        ),
    )

    def check(self, pending: PendingMessage) -> None:
        message, context = pending.message, self._parts.context
        limiting = self._parts.workload.limiting(message.channel, message.kind)
        limiting.check_rate(context.monotonic())


class NodeCapacity(AcceptanceCheck):
    """Messages in flight of the tenant and of the node."""

    stage = Stage.ATTEMPT
    rejections = (
        Rejection("draining", 503, "", "1 s"),
        Rejection("tenant_in_flight", 429, "`EVENFLOW_MESSAGES_IN_FLIGHT_PER_TENANT`", "1 s"),
        Rejection(
            "queue_full", 429, "`EVENFLOW_GENERATIONS_PER_NODE` + `EVENFLOW_QUEUE_DEPTH`", "2 s"
        ),
    )

    def check(self, pending: PendingMessage) -> None:
        self._parts.workload.check(pending.message.line)


class AccessValid(AcceptanceCheck):
    """The tenant and its key are still valid."""

    stage = Stage.ATTEMPT
    rejections = (Rejection("token_revoked", 401), Rejection("tenant_removed", 403))

    def check(self, pending: PendingMessage) -> None:
        message = pending.message
        self._parts.context.tenants.check_valid(message.channel.tenant, message.terms.key)


class ModelAvailable(AcceptanceCheck):
    """The agent exists, and the server of its model takes calls."""

    stage = Stage.ATTEMPT
    rejections = (
        Rejection("agent_not_found", 404),
        Rejection(
            "upstream_throttled",
            429,
            "`EVENFLOW_QUEUE_DEADLINE_SECONDS`",
            "when the model's server takes calls again",
        ),
        Rejection("upstream_unavailable", 503, "", "when the circuit breaker lets a call through"),
    )

    def check(self, pending: PendingMessage) -> None:
        self._parts.dispatcher.check_model(pending.message)


class MessageOrder(AcceptanceCheck):
    """The message's position in its conversation."""

    stage = Stage.ATTEMPT
    rejections = (Rejection("causal_violation", 409), Rejection("invalid_request", 400))

    def check(self, pending: PendingMessage) -> None:
        message = pending.message
        pending.conversation.check(
            message.message_id,
            message.previous_message_id,
            message.replaces,
            message.parent_message_id,
        )


class AnswersOfSession(AcceptanceCheck):
    """Messages in flight of the session."""

    stage = Stage.ATTEMPT
    rejections = (
        Rejection("session_in_flight", 429, "`EVENFLOW_MESSAGES_IN_FLIGHT_PER_SESSION`", "1 s"),
    )

    def check(self, pending: PendingMessage) -> None:
        message = pending.message
        self._parts.workload.limiting(message.channel, message.kind).check_in_flight()


class MemoryForHistory(AcceptanceCheck):
    """Memory for the conversation with one more message. Idle conversations make room."""

    stage = Stage.ATTEMPT
    rejections = (Rejection("node_memory", 503, "`EVENFLOW_CONVERSATIONS_HELD_BYTES`", "1 s"),)

    def check(self, pending: PendingMessage) -> None:
        message = pending.message
        if not message.kind.brings_conversation:
            size = len(message.text.encode()) + EXCHANGE_BYTES
            self._parts.workload.conversations.make_room(size)


class ReserveQuotas(AcceptanceCheck):
    """The quotas of the tenant, its key and its user.

    This also makes the response, for which they are reserved. On a full node it ends another
    sender's waiting answer, which no rollback restores.
    """

    stage = Stage.ATTEMPT
    rejections = tuple(
        Rejection(
            f"{level}_limit",
            429,
            "the tenant's record ([quotas](quotas.md))",
            "when the rate has room for it; 1 s for answers at once",
        )
        for level in Level
    )

    def check(self, pending: PendingMessage) -> None:
        dispatcher, message = self._parts.dispatcher, pending.message
        pending.demand = dispatcher.demand_of(message, pending.conversation)
        pending.stream = dispatcher.new_stream(
            f"rsp_{secrets.token_hex(16)}", message.message_id, message.channel, message.kind
        )
        self._parts.workload.reserve(pending.stream, message, pending.demand)

    def commit(self, pending: PendingMessage) -> None:
        self._parts.workload.confirm_reservation()

    def rollback(self, pending: PendingMessage) -> None:
        self._parts.workload.cancel_reservation(pending.stream)


class StoreConcurrency(AcceptanceCheck):
    """Writes to the store at the same time, fair among tenants, addresses and sessions.

    It waits, and never rejects. Earlier checks of this stage never wait, so that what they found
    holds when quotas are reserved.
    """

    stage = Stage.ATTEMPT

    def __init__(self, parts: AcceptanceParts) -> None:
        super().__init__(parts)
        self._writes = FairSemaphore(_WRITTEN_AT_ONCE)

    def check(self, pending: PendingMessage) -> Awaitable[None] | None:
        return None if self._writes.acquire_free() else self._writes.acquire(pending.message.line)

    def commit(self, pending: PendingMessage) -> None:
        self._writes.release()

    def rollback(self, pending: PendingMessage) -> None:
        self._writes.release()


class Budgets(AcceptanceCheck):
    """The budgets of the tenant, its key and its user, in tokens a day or in dollars a month."""

    stage = Stage.ATTEMPT
    rejections = (
        Rejection("model_without_price", 400, "`EVENFLOW_MODEL_PRICES`"),
        Rejection(
            "budget_exhausted",
            429,
            "the tenant's record ([budgets](budgets.md))",
            "when the next day or month begins",
        ),
        Rejection("store_unavailable", 503, "", "2 s"),
    )

    def check(self, pending: PendingMessage) -> Awaitable[None] | None:
        message, parts = pending.message, self._parts
        if not parts.usage.reserves_for(message.channel.tenant):
            return None
        expected = parts.dispatcher.expected_cost(message, pending.demand)
        return parts.usage.reserve(pending.stream, message.terms, expected)

    def commit(self, pending: PendingMessage) -> None:
        self._parts.usage.confirm(pending.stream)

    def rollback(self, pending: PendingMessage) -> None:
        self._parts.usage.release(pending.stream)


CHECKS: Sequence[type[AcceptanceCheck]] = (
    # Stage.ARRIVAL
    WaitingMessages,
    MemoryForMessage,
    SessionNotEnded,
    # Stage.IN_ORDER
    ConversationMemory,
    # Stage.NEW
    MessageRate,
    # Stage.ATTEMPT
    NodeCapacity,
    AccessValid,
    ModelAvailable,
    MessageOrder,
    AnswersOfSession,
    MemoryForHistory,
    ReserveQuotas,
    StoreConcurrency,
    Budgets,
)
"""All checks, in their order. Then the ledger stores the message."""

STORE_REJECTIONS: Sequence[Rejection] = (
    Rejection("store_behind", 503, "`EVENFLOW_STORE_BACKLOG_BYTES`", "2 s"),
    Rejection("message_too_large", 413, "`EVENFLOW_REQUESTS_BUCKET`"),
    Rejection("store_full", 503, "`EVENFLOW_STORE_BYTES`", "30 s"),
    Rejection("store_unavailable", 503, "", "2 s"),
    Rejection("session_contended", 503, "", "0.5 s"),
)
"""Why a message that has passed all checks is still not stored."""


class _PassedChecks:
    """Runs checks before a block, and commits them after it (`Acceptance.passed`)."""

    __slots__ = ("_checks", "_passed", "_pending")

    def __init__(self, checks: Sequence[AcceptanceCheck], pending: PendingMessage) -> None:
        self._checks = checks
        self._pending = pending
        self._passed = 0

    async def __aenter__(self) -> None:
        pending = self._pending
        try:
            for check in self._checks:
                rest = check.check(pending)
                if rest is not None:
                    await rest
                self._passed += 1
        except BaseException:
            self._roll_back()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._roll_back()
            return
        for check in self._checks:
            check.commit(self._pending)

    def _roll_back(self) -> None:
        for check in reversed(self._checks[: self._passed]):
            check.rollback(self._pending)


class Acceptance:
    """Runs the checks of a node, stage by stage."""

    def __init__(self, parts: AcceptanceParts, checks: Sequence[type[AcceptanceCheck]]) -> None:
        made = [check(parts) for check in checks]
        self._checks = {stage: [check for check in made if check.stage is stage] for stage in Stage}

    async def check(self, stage: Stage, pending: PendingMessage) -> None:
        """Run the checks of a stage that reserves nothing beyond it.

        Raises:
            EvenflowError: a check rejects the message.
        """
        async with self.passed(stage, pending):
            pass

    def passed(self, stage: Stage, pending: PendingMessage) -> AbstractAsyncContextManager[None]:
        """Run the checks of a stage before the block, and commit them after it.

        If a check or the block fails, the checks that have passed roll back, the last one first.

        Raises:
            EvenflowError: a check rejects the message.
        """
        return _PassedChecks(self._checks[stage], pending)
