"""This task as one of several that share a store, or as the only one."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

from evenflow.fargate_handler.adapters import Stores
from evenflow.fargate_handler.orchestrator.dispatcher import Dispatcher, ServedModel
from evenflow.fargate_handler.orchestrator.ended_sessions import EndedSessions
from evenflow.fargate_handler.orchestrator.followed_responses import FollowedResponses
from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper, LeaseView, OtherTasks
from evenflow.fargate_handler.orchestrator.left_reservations import LeftReservations
from evenflow.fargate_handler.orchestrator.message_ledger import KeptTexts, MessageLedger
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.node_exchange import NodeExchange
from evenflow.fargate_handler.orchestrator.orchestrator import Orchestrator
from evenflow.fargate_handler.orchestrator.presence_over_tasks import PresenceOverTasks
from evenflow.fargate_handler.orchestrator.response_recorder import ResponseRecorder
from evenflow.fargate_handler.orchestrator.session_messages import SessionMessages
from evenflow.fargate_handler.orchestrator.succession import Succession
from evenflow.fargate_handler.orchestrator.tenant_usage import TenantUsage
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

# For a try of the stores: a session that doesn't exist, and a message that can't be its next one.
_NO_SESSION = Channel("evenflow", "start", "nobody")
_NO_MESSAGE = LedgerEntry("nothing", "nobody's", "", "nothing", "nobody")
_LEAVE_STEP_SECONDS = 0.05


class Membership:
    """What a task shares with the others, and its orchestrator.

    Args:
        name: the name under which this task owns responses.
        address: where others reach it, `http://host:port`. None if they can't.
        peers: the others' logs, where they can be reached.
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
        self.workload = Workload(context, store_in_memory=not stores.outlives_process)
        self.recorder = ResponseRecorder(
            context,
            stores.responses,
            stores.sessions,
            on_ended=lambda stream: log_event(answer_record(stream, model.prices)),
            on_lost=self.workload.lose,
            settle=self._settle,
            longest_answer=stores.longest_answer,
        )
        self.keeper = LeaseKeeper(
            context,
            stores.leases,
            name=name,
            address=address,
            on_lost=self.recorder.lose_everything,
        )
        self._leases = LeaseView(context, stores.responses, self.keeper)
        self.usage = TenantUsage(
            context,
            stores.usage,
            prices=model.prices,
            keeper=self.keeper,
            is_writing=self.recorder.is_writing,
        )
        self._left_reservations = (
            None
            if stores.usage is None
            else LeftReservations(
                context,
                stores.usage,
                responses=stores.responses,
                keeper=self.keeper,
                leases=self._leases,
                usage=self.usage,
            )
        )
        self._usage_files = (
            None
            if usage_folder is None or stores.usage is None
            else UsageFiles(context, stores.usage, usage_folder)
        )
        others = OtherTasks(stores.responses, self.keeper, self._leases, peers)
        texts = KeptTexts(stores.large_texts, stores.largest_text)
        ledger = MessageLedger(context, stores.sessions, self.recorder, self.keeper, texts)
        dispatcher = Dispatcher(context, self.workload, ledger, model, self.usage)
        self.exchange = NodeExchange(
            context,
            stores.node_reports,
            name,
            gone=self._leases.gone,
            upstreams=dispatcher.upstreams,
            generations=self.workload.generations,
        )
        self.succession = Succession(
            context,
            others,
            self.workload,
            sessions=stores.sessions,
            texts=texts,
            dead_letters=stores.dead_letters,
            settle=self.usage.settle_record,
            is_writing=self.recorder.is_writing,
            begin=dispatcher.inherit,
        )
        self.followed = FollowedResponses(
            context,
            others,
            self.workload.responses,
            new_stream=dispatcher.new_stream,
            take_over=self.succession.take_over,
        )
        self.presence = PresenceOverTasks(
            context, peers, self.workload.responses, self.followed.owner_at
        )
        self.orchestrator = Orchestrator(
            context,
            workload=self.workload,
            ledger=ledger,
            dispatcher=dispatcher,
            succession=self.succession,
            elsewhere=self.followed,
            presence=self.presence,
            ended_sessions=EndedSessions(context, stores.sessions),
            usage=self.usage,
            messages=SessionMessages(
                context,
                stores.sessions,
                texts,
                here=self.workload.responses,
                stored=stores.responses,
            ),
        )
        self.tenant_records = (
            None
            if stores.tenants is None
            else TenantRecords(stores.tenants, context.tenants, model.prices, model.served)
        )
        context.metrics.gauge(catalogue.STORE_BACKLOG, lambda: self.recorder.backlog_bytes)

    async def _settle(self, stream: ResponseStream, ended_at: float) -> None:
        await self.usage.settle(stream, ended_at)

    async def start(self) -> None:
        """Try the stores, so that a wrong name stops the start, take the lease, and read the
        tenants.

        Raises:
            ConfigurationError: the stores can't be used.
        """
        sessions = self._stores.sessions
        try:
            await self.keeper.start()
            await sessions.load(_NO_SESSION, self._context.wall_time())
            await sessions.answered(_NO_SESSION, _NO_MESSAGE.message_id, None)
            with suppress(NotAccepted, StoreFull):
                await sessions.accept(_NO_SESSION, _NO_MESSAGE, self._context.wall_time())
            if self.tenant_records is not None:
                await self.tenant_records.read()
        except StoreUnavailable as error:
            raise ConfigurationError(f"{self._stores.unreachable} ({error})") from error
        except Exception as error:
            raise ConfigurationError(f"{self._stores.unusable} ({error})") from error
        self.recorder.start()
        self.succession.start()
        self.exchange.start()
        if self._left_reservations is not None:
            self._left_reservations.start()
        if self._usage_files is not None:
            self._usage_files.start()

    async def leave(self, flush_until: float) -> None:
        """Hand over what has not ended, and write the rest until `flush_until` (monotonic)."""
        if self._stores.outlives_process:
            self.workload.generations.hand_over_all()
        else:
            self.workload.generations.interrupt_all(
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
            _logger.warning("the lease of this task could not be released; it runs out by itself")

    async def aclose(self) -> None:
        """End all work. First what begins more of it."""
        await self.exchange.aclose()
        await self.presence.aclose()
        await self.followed.aclose()
        await self.succession.aclose()
        await self.workload.generations.aclose()
        await self.recorder.aclose()
        await self.usage.aclose()
        if self._left_reservations is not None:
            await self._left_reservations.aclose()
        if self._usage_files is not None:
            await self._usage_files.aclose()
        await self.keeper.aclose()
        await self._leases.aclose()
