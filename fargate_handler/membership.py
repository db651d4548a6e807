"""This task as one of several: its lease, what it puts on record, what it follows and what it takes over."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fargate_handler.adapters import Stores
from fargate_handler.metrics import Metrics
from fargate_handler.orchestrator.followed_responses import FollowedResponses
from fargate_handler.orchestrator.kept_texts import KeptTexts
from fargate_handler.orchestrator.lease_keeper import LeaseKeeper
from fargate_handler.orchestrator.lease_view import LeaseView
from fargate_handler.orchestrator.message_ledger import MessageLedger
from fargate_handler.orchestrator.orchestrator import Orchestrator
from fargate_handler.orchestrator.response_recorder import ResponseRecorder
from fargate_handler.orchestrator.succession import Succession
from fargate_handler.peers import Peers
from fargate_handler.settings import ConfigurationError
from stream_core import metric_catalogue as catalogue
from stream_core.channel import Channel
from stream_core.delivery_clock import DeliveryClock
from stream_core.limits import Limits
from stream_core.response_store import StoreUnavailable
from stream_core.response_stream import ResponseStream
from stream_core.session_token import SessionTokens

_logger = logging.getLogger(__name__)

# A session that there is none of, to try the tables with.
_NOBODY = Channel("evenflow", "start", "nobody")
# An owner that says nothing for so long may have been lost: its lease tells.
_LOOKS_PER_LEASE = 4.0


class Membership:
    """What a task shares with the others.

    Args:
        name: under which this task owns what it answers.
        address: where others reach it, `http://host:port`; None when they can't.
    """

    def __init__(
        self,
        *,
        stores: Stores,
        name: str,
        address: str | None,
        tokens: SessionTokens,
        clock: DeliveryClock,
        limits: Limits,
        metrics: Metrics,
        monotonic: Callable[[], float],
        wall_time: Callable[[], float],
    ) -> None:
        self._stores = stores
        self._clock = clock
        self._limits = limits
        self._metrics = metrics
        self._monotonic = monotonic
        self._wall_time = wall_time
        self._peers = Peers(tokens, limits.lease_seconds / _LOOKS_PER_LEASE, wall_time)
        self._orchestrator: Orchestrator | None = None
        self._succession: Succession | None = None
        self.recorder = ResponseRecorder(
            responses=stores.responses,
            sessions=stores.sessions,
            clock=clock,
            limits=limits,
            metrics=metrics,
            monotonic=monotonic,
            wall_time=wall_time,
            on_lost=self._lost,
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
        refused = metrics.counter(catalogue.STORE_REFUSED)
        self._texts = KeptTexts(stores.large_texts)
        self.ledger = MessageLedger(stores.sessions, self.recorder, self.keeper, wall_time, refused, self._texts)

    def join(self, orchestrator: Orchestrator) -> None:
        """Have `orchestrator` know of the responses of other tasks."""
        self._orchestrator = orchestrator
        leases = LeaseView(self._stores.responses, self._monotonic)
        orchestrator.succession = self._succession = Succession(
            responses=self._stores.responses,
            sessions=self._stores.sessions,
            keeper=self.keeper,
            leases=leases,
            texts=self._texts,
            dead_letters=self._stores.dead_letters,
            clock=self._clock,
            limits=self._limits,
            metrics=self._metrics,
            monotonic=self._monotonic,
            wall_time=self._wall_time,
            is_writing=self.recorder.is_writing,
            is_read=lambda response_id: orchestrator.responses.held(response_id) is not None,
            has_room=lambda: orchestrator.has_room,
            begin=orchestrator.inherit,
        )
        orchestrator.elsewhere = FollowedResponses(
            store=self._stores.responses,
            keeper=self.keeper,
            leases=leases,
            peers=self._peers,
            responses=orchestrator.responses,
            new_stream=orchestrator.new_stream,
            limits=self._limits,
            monotonic=self._monotonic,
            wall_time=self._wall_time,
            take_over=self._succession.take_over,
        )

    async def start(self) -> None:
        """Try all three tables, so that a wrong name is found now and not by the first message; then take the lease.

        Raises:
            ConfigurationError: a table can't be used.
        """
        sessions = self._stores.sessions
        try:
            await self.keeper.start()
            await sessions.load(_NOBODY, self._wall_time())
            await sessions.answered(_NOBODY, "nothing", None)
        except StoreUnavailable as error:
            raise ConfigurationError(
                f"EVENFLOW_STORE=dynamodb: the tables can't be reached ({error}); check the network and AWS_REGION"
            ) from error
        except Exception as error:
            raise ConfigurationError(
                f"EVENFLOW_RESPONSES_TABLE, EVENFLOW_SESSIONS_TABLE or EVENFLOW_LEDGER_TABLE can't be used ({error}); "
                "check their names and the task's role"
            ) from error
        self.recorder.start()
        if self._succession is not None:
            self._succession.start()

    async def leave(self, flush_until: float) -> None:
        """Write what there is, until that moment on the monotonic clock, and let others go on with what has not ended."""
        await self.recorder.drain(flush_until)
        try:
            await self.keeper.release()
        except StoreUnavailable:
            _logger.warning("the lease of this task could not be released; it runs out by itself")

    async def stop(self) -> None:
        """Close the connections to other tasks."""
        await self._peers.close()

    def _lost(self, stream: ResponseStream) -> None:
        if self._orchestrator is not None:
            self._orchestrator.lose(stream)
