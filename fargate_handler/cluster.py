"""The part of a node that takes part in its cluster: leases, failover, and its orchestrator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

from evenflow.fargate_handler.adapters import Stores
from evenflow.fargate_handler.orchestrator.budget_reservations import BudgetReservations
from evenflow.fargate_handler.orchestrator.cluster_presence import ClusterPresence
from evenflow.fargate_handler.orchestrator.dispatcher import Dispatcher, ServedModel
from evenflow.fargate_handler.orchestrator.ended_sessions import EndedSessions
from evenflow.fargate_handler.orchestrator.failover import Failover
from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper, LeaseView, Ownership
from evenflow.fargate_handler.orchestrator.message_ledger import MessageLedger, MessageTexts
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.node_exchange import NodeExchange
from evenflow.fargate_handler.orchestrator.operator_view import OperatorView
from evenflow.fargate_handler.orchestrator.orchestrator import Orchestrator
from evenflow.fargate_handler.orchestrator.orphaned_reservations import OrphanedReservations
from evenflow.fargate_handler.orchestrator.replicas import Replicas
from evenflow.fargate_handler.orchestrator.response_recorder import ResponseRecorder
from evenflow.fargate_handler.orchestrator.session_messages import SessionMessages
from evenflow.fargate_handler.orchestrator.workload import Workload
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError
from evenflow.fargate_handler.tenant_records import TenantRecords
from evenflow.fargate_handler.usage_files import UsageFiles
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Overloaded
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.peer_log import PeerLog
from evenflow.stream_core.records.answer_record import answer_record
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.stores.session_store import LedgerEntry, NotAccepted, StoreFull

_logger = logging.getLogger(__name__)

# The probe of the stores: a session that does not exist, and a message that it cannot accept.
_NO_SESSION = Channel("evenflow", "start", "nobody")
_NO_MESSAGE = LedgerEntry("nothing", "nobody's", "", "nothing", "nobody")
_LEAVE_STEP_SECONDS = 0.05


class ClusterMember:
    """A node as a member of its cluster: what it shares with the others, and its orchestrator.

    A single node is one, too: it finds no other node.

    Args:
        name: the name under which this node owns responses.
        address: where other nodes reach it, `http://host:port`. None if they can't.
        peers: the response logs of the other nodes, where they can be reached.
        usage_folder: where each day's usage is written to a file. None: nowhere.
    """

    def __init__(
        self,
        context: NodeContext,
        stores: Stores,
        model: ServedModel,
        *,
        name: str,
        address: str | None,
        peers: PeerLog,
        usage_folder: Path | None = None,
    ) -> None:
        self._stores = stores
        self._context = context
        self._make_store_writers(model, name, address, usage_folder)
        self._ownership = Ownership(stores.responses, self.keeper, self.leases, peers)
        self._texts = MessageTexts(stores.large_texts, stores.largest_text)
        ledger = MessageLedger(context, stores.sessions, self.recorder, self.keeper, self._texts)
        dispatcher = Dispatcher(context, self.workload, ledger, model, self.usage)
        self.exchange = NodeExchange(
            context,
            stores.node_reports,
            name,
            without_lease=self.leases.without_lease,
            upstreams=dispatcher.upstreams,
            generations=self.workload.generations,
        )
        self.failover = self._failover(dispatcher)
        self.replicas = Replicas(
            context,
            self._ownership,
            self.workload.responses,
            new_stream=dispatcher.new_stream,
            take_over=self.failover.take_over,
            prepare=self.failover.prepare,
        )
        self.presence = ClusterPresence(
            context, peers, self.workload.responses, self.replicas.owner_at
        )
        self.orchestrator = self._orchestrator(ledger, dispatcher)
        self.operator_view = OperatorView(
            self.workload.generations,
            dispatcher.upstreams,
            self.keeper,
            self.leases,
            context.monotonic,
        )

    def _make_store_writers(
        self, model: ServedModel, name: str, address: str | None, usage_folder: Path | None
    ) -> None:
        """Make what writes to the stores: responses, the lease, usage, and tenants' records."""
        stores, context = self._stores, self._context
        self.workload = Workload(context, store_in_memory=not stores.outlives_process)
        self.recorder = self._recorder(model)
        self.keeper = LeaseKeeper(
            context,
            stores.leases,
            name=name,
            address=address,
            on_lost=self.recorder.lose_everything,
        )
        self.leases = LeaseView(context, stores.responses, self.keeper)
        self.usage = BudgetReservations(
            context,
            stores.usage,
            prices=model.prices,
            keeper=self.keeper,
            is_writing=self.recorder.is_writing,
        )
        self._usage_upkeep = self._usage_tasks(usage_folder)
        self.tenant_records = (
            None
            if stores.tenants is None
            else TenantRecords(stores.tenants, context.tenants, model.prices, model.served)
        )
        context.metrics.gauge(catalogue.STORE_BACKLOG, lambda: self.recorder.backlog_bytes)
        context.metrics.gauge(catalogue.LEASE_HELD, lambda: float(self.keeper.in_force))

    def _recorder(self, model: ServedModel) -> ResponseRecorder:
        stores = self._stores
        return ResponseRecorder(
            self._context,
            stores.responses,
            stores.sessions,
            on_ended=lambda stream: log_event(answer_record(stream, model.prices)),
            on_lost=self.workload.lose,
            settle=self._settle,
            longest_answer=stores.longest_answer,
        )

    def _usage_tasks(self, usage_folder: Path | None) -> list[OrphanedReservations | UsageFiles]:
        """What settles reservations of lost nodes, and writes each day's usage to a file."""
        store = self._stores.usage
        if store is None:
            return []
        reservations = OrphanedReservations(
            self._context,
            store,
            responses=self._stores.responses,
            keeper=self.keeper,
            leases=self.leases,
            usage=self.usage,
        )
        if usage_folder is None:
            return [reservations]
        return [reservations, UsageFiles(self._context, store, usage_folder)]

    def _failover(self, dispatcher: Dispatcher) -> Failover:
        return Failover(
            self._context,
            self._ownership,
            self.workload,
            sessions=self._stores.sessions,
            texts=self._texts,
            dead_letters=self._stores.dead_letters,
            settle=self.usage.settle_record,
            is_writing=self.recorder.is_writing,
            resume=dispatcher.resume_taken_over,
        )

    def _orchestrator(self, ledger: MessageLedger, dispatcher: Dispatcher) -> Orchestrator:
        context, stores, responses = self._context, self._stores, self.workload.responses
        return Orchestrator(
            context,
            workload=self.workload,
            ledger=ledger,
            dispatcher=dispatcher,
            failover=self.failover,
            replicas=self.replicas,
            presence=self.presence,
            ended_sessions=EndedSessions(context, stores.sessions),
            usage=self.usage,
            messages=SessionMessages(
                context, stores.sessions, self._texts, local=responses, stored=stores.responses
            ),
        )

    def _settle(self, stream: ResponseStream, ended_at: float) -> Awaitable[None] | None:
        return self.usage.settle(stream, ended_at)

    async def start(self) -> None:
        """Take the lease, probe the stores, read the tenants, and start the background work.

        The probe makes a wrong table name stop the start.

        Raises:
            ConfigurationError: the stores can't be used.
        """
        sessions = self._stores.sessions
        try:
            await self.keeper.start()
            await sessions.load(_NO_SESSION, self._context.wall_time())
            await sessions.record_answer(_NO_SESSION, _NO_MESSAGE.message_id, None)
            with suppress(NotAccepted, StoreFull):
                await sessions.accept(_NO_SESSION, _NO_MESSAGE, self._context.wall_time())
            if self.tenant_records is not None:
                await self.tenant_records.read()
        except StoreUnavailable as error:
            raise ConfigurationError(f"{self._stores.unreachable} ({error})") from error
        except Exception as error:
            raise ConfigurationError(f"{self._stores.unusable} ({error})") from error
        self.recorder.start()
        self.failover.start()
        self.exchange.start()
        for upkeep in self._usage_upkeep:
            upkeep.start()

    async def drain(self, flush_until: float) -> None:
        """Hand over the running answers, write the rest until `flush_until`, and release the lease.

        Args:
            flush_until: on the monotonic clock.
        """
        if self._stores.outlives_process:
            self.workload.generations.hand_over_all()
        else:
            self.workload.generations.fail_all(
                Overloaded(
                    "the node left before the answer was finished; what was delivered is kept, "
                    "ask again",
                    code="draining",
                )
            )
        # Messages may still be being accepted.
        while self.workload.busy and self._context.monotonic() < flush_until:  # noqa: ASYNC110
            await asyncio.sleep(_LEAVE_STEP_SECONDS)
        await self.recorder.drain(flush_until)
        try:
            await self.keeper.release()
        except StoreUnavailable:
            _logger.warning("the lease of this node could not be released; it runs out by itself")

    async def aclose(self) -> None:
        """End all work, the parts that start more of it first."""
        await self.exchange.aclose()
        await self.presence.aclose()
        await self.replicas.aclose()
        await self.failover.aclose()
        await self.workload.generations.aclose()
        await self.recorder.aclose()
        await self.usage.aclose()
        for upkeep in self._usage_upkeep:
            await upkeep.aclose()
        await self.keeper.aclose()
        await self.leases.aclose()
