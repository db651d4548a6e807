"""This task as one of several that share a store, or the only one: its lease, its ledger, what it takes over and follows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from fargate_handler.adapters import Stores
from fargate_handler.metrics import Metrics
from fargate_handler.orchestrator.agent_requests import AgentRequests
from fargate_handler.orchestrator.dispatcher import Dispatcher
from fargate_handler.orchestrator.followed_responses import FollowedResponses
from fargate_handler.orchestrator.leases import LeaseKeeper, LeaseView
from fargate_handler.orchestrator.message_ledger import KeptTexts, MessageLedger
from fargate_handler.orchestrator.orchestrator import Orchestrator
from fargate_handler.orchestrator.response_recorder import ResponseRecorder
from fargate_handler.orchestrator.succession import Succession
from fargate_handler.orchestrator.workload import Workload
from fargate_handler.settings import ConfigurationError
from fargate_handler.token_sources.port import TokenSource
from stream_core.delivery.delivery_clock import DeliveryClock
from stream_core.log.peer_log import PeerLog
from stream_core.metrics import metric_catalogue as catalogue
from stream_core.policy.channel import Channel
from stream_core.policy.limits import Limits
from stream_core.ports.response_store import StoreUnavailable
from stream_core.protocol.errors import Overloaded

_logger = logging.getLogger(__name__)

# A session that there is none of, to try the store with.
_NOBODY = Channel("evenflow", "start", "nobody")
_LEAVE_STEP_SECONDS = 0.05


class Membership:
    """What a task shares with the others, and the orchestrator that stands on it.

    Args:
        name: under which this task owns what it answers.
        address: where others reach it, `http://host:port`; None when they can't.
        peers: the others, where they can be reached.
        requests: what agents add to a message.
        fallback_text: the answer when the model cannot; empty for an error instead.
        monotonic, wall_time: seconds, the second ones since the epoch.
    """

    def __init__(
        self,
        *,
        stores: Stores,
        name: str,
        address: str | None,
        peers: PeerLog,
        source: TokenSource,
        requests: AgentRequests,
        fallback_text: str,
        clock: DeliveryClock,
        limits: Limits,
        metrics: Metrics,
        monotonic: Callable[[], float],
        wall_time: Callable[[], float],
    ) -> None:
        self._stores = stores
        self._monotonic = monotonic
        self._wall_time = wall_time
        self.workload = Workload(limits, metrics, monotonic, store_in_memory=not stores.outlives_process)
        self.recorder = ResponseRecorder(
            responses=stores.responses,
            sessions=stores.sessions,
            clock=clock,
            limits=limits,
            metrics=metrics,
            monotonic=monotonic,
            wall_time=wall_time,
            on_lost=self.workload.lose,
        )
        self.keeper = LeaseKeeper(
            store=stores.leases,
            name=name,
            address=address,
            clock=clock,
            limits=limits,
            monotonic=monotonic,
            wall_time=wall_time,
            on_lost=self.recorder.lose_everything,
        )
        texts = KeptTexts(stores.large_texts)
        refused = metrics.counter(catalogue.STORE_REFUSED)
        ledger = MessageLedger(stores.sessions, self.recorder, self.keeper, wall_time, refused, texts)
        dispatcher = Dispatcher(
            workload=self.workload,
            ledger=ledger,
            source=source,
            requests=requests,
            fallback_text=fallback_text,
            clock=clock,
            limits=limits,
            metrics=metrics,
            monotonic=monotonic,
        )
        self._leases = LeaseView(stores.responses, monotonic)
        self.succession = Succession(
            responses=stores.responses,
            sessions=stores.sessions,
            keeper=self.keeper,
            leases=self._leases,
            texts=texts,
            dead_letters=stores.dead_letters,
            clock=clock,
            limits=limits,
            metrics=metrics,
            monotonic=monotonic,
            wall_time=wall_time,
            is_writing=self.recorder.is_writing,
            is_read=lambda response_id: self.workload.responses.held(response_id) is not None,
            has_room=lambda: self.workload.has_room,
            begin=dispatcher.inherit,
        )
        self.followed = FollowedResponses(
            store=stores.responses,
            keeper=self.keeper,
            leases=self._leases,
            peers=peers,
            responses=self.workload.responses,
            new_stream=dispatcher.new_stream,
            limits=limits,
            metrics=metrics,
            monotonic=monotonic,
            wall_time=wall_time,
            take_over=self.succession.take_over,
        )
        self.orchestrator = Orchestrator(
            workload=self.workload,
            ledger=ledger,
            dispatcher=dispatcher,
            succession=self.succession,
            elsewhere=self.followed,
            metrics=metrics,
            monotonic=monotonic,
        )
        metrics.gauge(catalogue.STORE_BACKLOG, lambda: self.recorder.backlog_bytes)

    async def start(self) -> None:
        """Try the whole store, so that a wrong name is found now and not by the first message; then take the lease.

        Raises:
            ConfigurationError: the store can't be used.
        """
        sessions = self._stores.sessions
        try:
            await self.keeper.start()
            await sessions.load(_NOBODY, self._wall_time())
            await sessions.answered(_NOBODY, "nothing", None)
        except StoreUnavailable as error:
            raise ConfigurationError(f"{self._stores.unreachable} ({error})") from error
        except Exception as error:
            raise ConfigurationError(f"{self._stores.unusable} ({error})") from error
        self.recorder.start()
        self.succession.start()

    async def leave(self, flush_until: float) -> None:
        """Let others go on with what has not ended, and write what there is, until that moment on the monotonic clock."""
        if self._stores.outlives_process:
            self.workload.generations.hand_over_all()
        else:
            self.workload.generations.interrupt_all(
                Overloaded(
                    "the node left before the answer was finished; what was delivered is kept, ask again",
                    code="draining",
                )
            )
        # What was still being accepted.
        while self.workload.busy and self._monotonic() < flush_until:  # noqa: ASYNC110
            await asyncio.sleep(_LEAVE_STEP_SECONDS)
        await self.recorder.drain(flush_until)
        try:
            await self.keeper.release()
        except StoreUnavailable:
            _logger.warning("the lease of this task could not be released; it runs out by itself")

    async def aclose(self) -> None:
        """End all work: first what begins more of it."""
        await self.followed.aclose()
        await self.succession.aclose()
        await self.workload.generations.aclose()
        await self.recorder.aclose()
        await self.keeper.aclose()
        await self._leases.aclose()
