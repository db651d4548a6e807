"""This task as one of several that share a store, or as the only one."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from fargate_handler.adapters import Stores
from fargate_handler.event_log import log_event
from fargate_handler.node_context import NodeContext
from fargate_handler.orchestrator.activity_exchange import ActivityExchange
from fargate_handler.orchestrator.dispatcher import Dispatcher, ServedModel
from fargate_handler.orchestrator.followed_responses import FollowedResponses
from fargate_handler.orchestrator.leases import LeaseKeeper, LeaseView, OtherTasks
from fargate_handler.orchestrator.message_ledger import KeptTexts, MessageLedger
from fargate_handler.orchestrator.orchestrator import Orchestrator
from fargate_handler.orchestrator.response_recorder import ResponseRecorder
from fargate_handler.orchestrator.session_messages import SessionMessages
from fargate_handler.orchestrator.succession import Succession
from fargate_handler.orchestrator.workload import Workload
from fargate_handler.settings import ConfigurationError
from stream_core.log.peer_log import PeerLog
from stream_core.metrics import metric_catalogue as catalogue
from stream_core.policy.channel import Channel
from stream_core.ports.response_store import StoreUnavailable
from stream_core.ports.session_store import LedgerEntry, NotAccepted
from stream_core.protocol.errors import Overloaded
from stream_core.records.answer_record import answer_record

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
    ) -> None:
        self._stores = stores
        self._context = context
        self.workload = Workload(context, store_in_memory=not stores.outlives_process)
        self.exchange = ActivityExchange(context, stores.activity, name)
        self.exchange.add(self.workload.generations.charges)
        self.recorder = ResponseRecorder(
            context,
            stores.responses,
            stores.sessions,
            on_ended=lambda stream: log_event(answer_record(stream, model.prices)),
            on_lost=self.workload.lose,
        )
        self.keeper = LeaseKeeper(
            context,
            stores.leases,
            name=name,
            address=address,
            on_lost=self.recorder.lose_everything,
        )
        self._leases = LeaseView(context, stores.responses, self.keeper)
        others = OtherTasks(stores.responses, self.keeper, self._leases, peers)
        texts = KeptTexts(stores.large_texts)
        ledger = MessageLedger(context, stores.sessions, self.recorder, self.keeper, texts)
        dispatcher = Dispatcher(context, self.workload, ledger, model)
        self.succession = Succession(
            context,
            others,
            self.workload,
            sessions=stores.sessions,
            texts=texts,
            dead_letters=stores.dead_letters,
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
        self.orchestrator = Orchestrator(
            context,
            workload=self.workload,
            ledger=ledger,
            dispatcher=dispatcher,
            succession=self.succession,
            elsewhere=self.followed,
            messages=SessionMessages(
                context,
                stores.sessions,
                texts,
                here=self.workload.responses,
                stored=stores.responses,
            ),
        )
        context.metrics.gauge(catalogue.STORE_BACKLOG, lambda: self.recorder.backlog_bytes)

    async def start(self) -> None:
        """Try the stores, so that a wrong name stops the start, and take the lease.

        Raises:
            ConfigurationError: the stores can't be used.
        """
        sessions = self._stores.sessions
        try:
            await self.keeper.start()
            await sessions.load(_NO_SESSION, self._context.wall_time())
            await sessions.answered(_NO_SESSION, _NO_MESSAGE.message_id, None)
            with suppress(NotAccepted):
                await sessions.accept(_NO_SESSION, _NO_MESSAGE, self._context.wall_time())
        except StoreUnavailable as error:
            raise ConfigurationError(f"{self._stores.unreachable} ({error})") from error
        except Exception as error:
            raise ConfigurationError(f"{self._stores.unusable} ({error})") from error
        self.recorder.start()
        self.succession.start()
        self.exchange.start()

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
        await self.followed.aclose()
        await self.succession.aclose()
        await self.workload.generations.aclose()
        await self.recorder.aclose()
        await self.keeper.aclose()
        await self._leases.aclose()
