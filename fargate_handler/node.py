"""The composition root: puts a node together, starts it, drains it and stops it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from evenflow.fargate_handler.adapters import Adapters
from evenflow.fargate_handler.cluster import ClusterMember
from evenflow.fargate_handler.drain import GOING_AWAY_REASON, Drain
from evenflow.fargate_handler.filters.chosen_filters import chosen_filters
from evenflow.fargate_handler.gateway.bodies.reading_work import ReadingWork
from evenflow.fargate_handler.gateway.connections.accepted_connections import AcceptedConnections
from evenflow.fargate_handler.gateway.connections.access_control import AccessControl
from evenflow.fargate_handler.gateway.connections.connection_registry import ConnectionRegistry
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.identity_keys import IdentityKeys
from evenflow.fargate_handler.gateway.connections.listener import Listener
from evenflow.fargate_handler.gateway.connections.outbox import DeliveryMeasures, Outbox
from evenflow.fargate_handler.gateway.connections.processes import (
    ProcessIdentity,
    Siblings,
    public_addresses,
    public_sockets,
)
from evenflow.fargate_handler.gateway.connections.reconnect_rate import ReconnectRate
from evenflow.fargate_handler.gateway.connections.revocation import Revocation
from evenflow.fargate_handler.gateway.connections.site import Site
from evenflow.fargate_handler.gateway.http_endpoints import HttpEndpoints
from evenflow.fargate_handler.gateway.operator_api import OperatorApi
from evenflow.fargate_handler.gateway.operator_endpoints import OperatorEndpoints
from evenflow.fargate_handler.gateway.websocket_endpoint import WebSocketEndpoint
from evenflow.fargate_handler.isolation import Isolation
from evenflow.fargate_handler.key_rotation import KeyRotation
from evenflow.fargate_handler.model_source import make_token_source
from evenflow.fargate_handler.orchestrator.agent_settings import AgentSettings
from evenflow.fargate_handler.orchestrator.dispatcher import ServedModel
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.peers import Peers, own_address
from evenflow.fargate_handler.runtime.background import Background
from evenflow.fargate_handler.runtime.clock_driver import ClockDriver
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.fargate_handler.runtime.memory import (
    GarbageCollection,
    memory_bytes,
    open_files,
    resident_bytes,
)
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.scale_in_protection import ScaleInProtection
from evenflow.fargate_handler.settings.handler_settings import (
    ConfigurationError,
    HandlerSettings,
    read_agents,
)
from evenflow.stream_core.auth.oidc import IdentityTokens
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.agents import Agents
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.base.public_models import names_at_server
from evenflow.stream_core.bounds.call_rates import CallRates
from evenflow.stream_core.bounds.connection_places import ConnectionPlaces, most_served
from evenflow.stream_core.bounds.node_load import LoadFigure, NodeUse
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.records.connection_records import ShadowRecord
from evenflow.stream_core.tenants.quotas import Quotas
from evenflow.stream_core.tenants.registry import Tenants

if TYPE_CHECKING:
    from evenflow.fargate_handler.tracing.answer_trace import AnswerTraces

_logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
# A sweep this late means that the process was stopped: what its clients sent is read before slow
# readers are judged.
_STOPPED_SECONDS = 5.0
# The longest silence of an owner before its lease is read: it may be lost.
_PEER_SILENCE_SECONDS = 2.5


class Node:
    """One handler: one process, one event loop.

    Args:
        leave: asks this process to leave.
        name: this node's id, unlike all others'. None: a new one.
        garbage: collects garbage while the node is quiet.
        process: which of several processes this is.
        monotonic: seconds, for all that is measured here.
        wall_time: seconds since the epoch, for what other nodes read.

    Raises:
        ConfigurationError: the agents or the content filters are wrong.
    """

    def __init__(
        self,
        settings: HandlerSettings,
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics,
        adapters: Adapters,
        leave: Callable[[], None],
        *,
        name: str | None = None,
        garbage: GarbageCollection | None = None,
        process: ProcessIdentity | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall_time: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._node_id = name or secrets.token_hex(8)
        self._adapters = adapters
        self._metrics = metrics
        self._process = process
        self._garbage = garbage
        # Not loop.time: in uvloop its resolution is a millisecond.
        self._monotonic = monotonic
        self._wall_time = wall_time
        self._background = Background()
        self._make_clock(loop)
        self._make_access()
        self._make_model()
        self._make_cluster()
        self._make_gateway(leave)
        self._protecting: asyncio.Task[None] | None = None
        self._is_leaving = False
        self._minute = _minute_of(wall_time())
        self._swept_at = monotonic()
        metrics.end_minute(monotonic())
        self._register_gauges()

    def _make_clock(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make the clock that delivers answers, and what measures it."""
        self._clock = DeliveryClock(self._monotonic(), self._settings)
        self._measures = DeliveryMeasures(self._metrics)
        self._load = LoadFigure(self._settings, self._monotonic())
        self._outbox = Outbox(loop.call_soon, self._measures)
        self._driver = ClockDriver(self._clock, loop, self._monotonic, self._outbox.flush)

    def _make_access(self) -> None:
        """Make the tenants in force, and what verifies their keys and their users' tokens."""
        settings, adapters, oidc = self._settings, self._adapters, self._settings.oidc
        self._tokens = SessionTokens(adapters.signing_keys)
        # Where functions open the sessions, tenants have keys, which this node may not know.
        knows_keys = settings.token_keys_secret is None or adapters.tenant_key_secret is not None
        self._tenants = Tenants(
            adapters.tenant_keys,
            known=knows_keys,
            identified=oidc is not None,
            claimed=oidc is not None and oidc.needs_record,
            open_tenant=settings.open_tenant,
            closed=adapters.tenant_key_secret is not None,
            wall_time=self._wall_time,
        )
        self._quotas = Quotas(self._tenants, self._count_shadow_rejection)
        self._identities = (
            None
            if oidc is None
            else IdentityKeys(IdentityTokens(oidc), self._background, self._wall_time)
        )

    def _make_model(self) -> None:
        """Make the model, its agents, and the filters of its answers."""
        settings = self._settings
        self._agents = Agents(read_agents(settings))
        self._source = make_token_source(settings, self._clock)
        self._filters = chosen_filters(settings, self._tenants, self._metrics, self._monotonic)
        self._model = ServedModel(
            self._source,
            AgentSettings(self._agents, settings.served_models),
            settings.fallback_text,
            name=settings.own_model_name,
            prices=settings.prices,
            longest=settings.model_max_tokens,
            context=settings.model_context_tokens,
            repeats_broken=settings.repeats_broken_answers,
            repeats_lost=settings.model_repeatable is not False,
            served=names_at_server(settings.served_models, settings.own_model_name),
        )

    def _make_cluster(self) -> None:
        """Make what this node shares with the others, the orchestrator, and the key rotation."""
        settings, adapters, process = self._settings, self._adapters, self._process
        self._context = NodeContext(
            settings,
            self._clock,
            self._metrics,
            self._monotonic,
            self._wall_time,
            traces=self._answer_traces(),
            tenants=self._tenants,
            quotas=self._quotas,
            filters=self._filters,
        )
        self._peers = Peers(self._tokens, _PEER_SILENCE_SECONDS, self._wall_time)
        has_usage_files = settings.store == "sqlite"
        self._cluster = ClusterMember(
            self._context,
            adapters.stores,
            self._model,
            name=self._node_id,
            address=own_address(settings, adapters.peer_address)
            if process is None
            else process.own_address,
            peers=self._peers,
            usage_folder=settings.store_path.parent / "usage" if has_usage_files else None,
        )
        self._orchestrator = self._cluster.orchestrator
        self._keys = KeyRotation(
            settings,
            adapters,
            self._tokens,
            self._tenants,
            self._cluster.tenant_records,
            self._background,
            self._monotonic(),
        )

    def _make_gateway(self, leave: Callable[[], None]) -> None:
        """Make the listener, and what serves the connections that it accepts."""
        settings = self._settings
        self._registry = ConnectionRegistry(settings)
        self._accepted = AcceptedConnections(
            ConnectionPlaces(
                most_served(open_files(), settings.descriptors_reserved), settings.bodies_per_node
            ),
            self._metrics.labelled(catalogue.CONNECTIONS_CUT),
        )
        self._gateway = self._gateway_context()
        self._isolation = Isolation(
            settings,
            self._cluster.keeper,
            self._cluster.leases,
            self._peers.holds_lease,
            self._orchestrator,
            self._registry,
            self._background,
        )
        self._revocation = Revocation(self._gateway)
        websockets = WebSocketEndpoint(self._gateway)
        operators = self._operator_endpoints(leave)
        self._http = HttpEndpoints(self._gateway, settings.page, operators, websockets)
        self._listener = Listener(
            websockets, self._http.take, self._accepted, settings.head_seconds
        )

    @property
    def public_addresses(self) -> str:
        """The addresses for clients, for the log."""
        return public_addresses(self._settings)

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: a port or the store can't be used. The message names the variable.
        """
        settings = self._settings
        await self._cluster.start()
        await self._http.start()
        if self._process is None:
            (sockets,) = public_sockets(settings)
        else:
            sockets = self._process.sockets(settings)
        await self._listener.start(sockets)
        adapters = self._adapters
        if adapters.task_protection is not None and adapters.ecs_task is not None:
            protection = ScaleInProtection(
                adapters.task_protection,
                adapters.ecs_task.is_surplus,
                lambda: self._orchestrator.busy,
            )
            self._protecting = self._background.run(protection.keep())
        if self._identities is not None:
            self._identities.begin()
        self._driver.start()
        self._clock.put_after(self, _SWEEP_SECONDS)
        if self._garbage is not None:
            self._garbage.follow(self._clock)

    def stand_in(self, process: ProcessIdentity, number: int) -> None:
        """Accept the connections of another process of this machine, which has ended."""
        self._background.run(self._listener.start(process.sockets_of(number), number))

    def stand_down(self, number: int) -> None:
        """Stop accepting the connections of another process, which serves again."""
        self._listener.stop(number)

    def reload_agents(self) -> None:
        """Read the agents' file again. If it is wrong, nothing changes and the log says why."""
        try:
            self._agents.replace(read_agents(self._settings))
        except ConfigurationError as error:
            _logger.error("the agents stay as they are: %s", error)
        else:
            _logger.info("the agents were read again: %s", ", ".join(self._agents.names))

    async def drain(self) -> None:
        """Drain: accept nothing new, move each client at its slot, hand over unfinished answers."""
        self._is_leaving = True
        self._orchestrator.stop_accepting()
        if self._protecting is not None:
            self._protecting.cancel()
        drain = Drain(
            self._settings, self._registry, self._orchestrator, self._metrics, self._monotonic
        )
        await self._cluster.drain(await drain.move_clients())
        self._registry.close_all(CloseCode.GOING_AWAY, GOING_AWAY_REASON)

    async def stop(self) -> None:
        """Close everything. What hasn't ended stays in the store. No task runs afterwards."""
        self._listener.stop_accepting()
        await self._http.stop()
        self._driver.stop()
        await self._background.aclose()
        await self._cluster.aclose()
        await self._source.close()
        await self._filters.close()
        await self._peers.close()
        if self._adapters.publication is not None:
            await self._adapters.publication.close(self._metrics.snapshot(), self._minute)

    def on_due(self, _slot: int) -> None:
        """Do the periodic work, once a second.

        It forgets old sessions, checks slow readers, reads changed keys, revokes credentials, and
        ends the minute of the metrics.
        """
        self._clock.put_after(self, _SWEEP_SECONDS)
        now = self._monotonic()
        swept_at, self._swept_at = self._swept_at, now
        self._orchestrator.sweep(now)
        if now - swept_at < _STOPPED_SECONDS:
            for connection in tuple(self._registry.slow):
                connection.look_at_readers(now)
        self._load.sample(self._use(), now)
        closed = self._registry.limit_unsent_bytes(self._orchestrator.memory.unsent)
        self._measures.too_slow.value += closed
        self._accepted.log()
        if self._garbage is not None:
            self._garbage.look(now, len(self._accepted), self._orchestrator.answering)
        if not self._is_leaving:
            self._isolation.check_lease()
        self._keys.sweep(now)
        self._revocation.sweep(now)
        if (room := self._adapters.stores.room) is not None:
            self._background.run(room.tidy())
        # Also where the clock was set back: no figures would come until it is where it was.
        if _minute_of(self._wall_time()) != self._minute:
            self._end_minute(now)

    def _end_minute(self, now: float) -> None:
        # By the wall clock, so that all nodes have the same minutes.
        last_minute, self._minute = self._minute, _minute_of(self._wall_time())
        for metric in (catalogue.DEAD_CONNECTIONS_RATE, catalogue.RESET_RATE):
            self._metrics.ratio(metric).whole += len(self._registry)
        self._orchestrator.end_minute(now)
        self._metrics.end_minute(now)
        if self._adapters.publication is not None:
            self._adapters.publication.minute_ended(self._metrics.snapshot(), last_minute)

    def _count_shadow_rejection(self, tenant: str, error: RateLimited) -> None:
        """Count and log a message that a limit in shadow mode would have rejected."""
        self._metrics.labelled(catalogue.SHADOW_REFUSALS).count(error.code)
        limit, wait_ms = error.extra["limit"], error.retry_after_ms
        log_event(ShadowRecord(tenant=tenant, code=error.code, limit=limit, retry_after_ms=wait_ms))

    def _register_gauges(self) -> None:
        gauge, clock = self._metrics.gauge, self._clock
        gauge(catalogue.MEMORY_RESIDENT, resident_bytes)
        memory = memory_bytes()
        gauge(catalogue.MEMORY_USED, lambda: 100 * resident_bytes() / memory)
        gauge(catalogue.NODE_LOAD, lambda: self._load.percent)
        gauge(catalogue.ACTIVE_CONNECTIONS, lambda: len(self._registry))
        gauge(catalogue.CLOCK_INTERVAL, lambda: clock.interval * 1000)
        gauge(catalogue.CLOCK_LOAD, lambda: clock.load * 100)
        gauge(catalogue.CLOCK_LATENESS, lambda: clock.lateness * 1000)

    def _answer_traces(self) -> AnswerTraces | None:
        if self._adapters.tracing is None:
            return None
        # OpenTelemetry is loaded only where it is used.
        from evenflow.fargate_handler.tracing.answer_trace import AnswerTraces  # noqa: PLC0415
        from evenflow.fargate_handler.tracing.spans import Spans  # noqa: PLC0415

        settings = self._settings
        spans = Spans(self._adapters.tracing, self._monotonic, self._wall_time)
        return AnswerTraces(spans, settings.model, settings.own_model_name)

    def _use(self) -> NodeUse:
        measures, orchestrator, clock = self._measures, self._orchestrator, self._clock
        return NodeUse(
            connections=len(self._registry),
            event_streams=measures.event_streams + measures.waiting_polls,
            answers=orchestrator.generating,
            queue=orchestrator.queued,
            cpu_share=clock.load,
            lateness_seconds=clock.lateness,
        )

    def _gateway_context(self) -> GatewayContext:
        settings, orchestrator = self._settings, self._orchestrator
        site = Site.of(settings, self._node_id)
        return GatewayContext(
            limits=settings,
            clock=self._clock,
            metrics=self._metrics,
            monotonic=self._monotonic,
            wall_time=self._wall_time,
            tenants=self._tenants,
            quotas=self._quotas,
            filters=self._filters,
            measures=self._measures,
            outbox=self._outbox,
            orchestrator=orchestrator,
            registry=self._registry,
            work=ReadingWork(settings, self._monotonic, orchestrator.memory.requests),
            calls=CallRates(settings),
            background=self._background,
            accepted=self._accepted,
            access=AccessControl(
                self._tokens,
                self._tenants,
                orchestrator.ended_sessions,
                site,
                self._wall_time,
                tuple(settings.served_models),
                self._identities,
            ),
            site=site,
            reconnects=ReconnectRate(settings, self._monotonic()),
            agents=self._agents,
        )

    def _operator_endpoints(self, leave: Callable[[], None]) -> OperatorEndpoints:
        key, watch = self._settings.drain_key, self._adapters.stores.watch
        process = self._process
        return OperatorEndpoints(
            self._gateway,
            self._load,
            leave,
            drain_key=None if key is None else key.get_secret_value(),
            store_is_lost=lambda: watch is not None and watch.is_lost,
            lease_in_force=lambda: self._cluster.keeper.in_force,
            is_isolated=lambda: self._isolation.is_isolated,
            siblings=None if process is None else Siblings(process, self._peers.metrics_page),
            api=OperatorApi(
                self._cluster.operator_view, self._tokens, self._peers, self._wall_time
            ),
        )


def _minute_of(wall_time: float) -> int:
    """The beginning of a time's minute, in seconds since the epoch."""
    return int(wall_time // 60) * 60
