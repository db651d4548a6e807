"""Puts the handler together, starts it, and lets it leave without losing an answer."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from evenflow.fargate_handler.adapters import Adapters
from evenflow.fargate_handler.chosen_source import chosen_source
from evenflow.fargate_handler.filters.chosen_filters import chosen_filters
from evenflow.fargate_handler.gateway.bodies.reading_work import ReadingWork
from evenflow.fargate_handler.gateway.connections.accepted_connections import AcceptedConnections
from evenflow.fargate_handler.gateway.connections.address_turns import AddressTurns
from evenflow.fargate_handler.gateway.connections.connection_registry import (
    ConnectionRegistry,
    Movable,
)
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.identity_keys import IdentityKeys
from evenflow.fargate_handler.gateway.connections.listener import Listener
from evenflow.fargate_handler.gateway.connections.outbox import DeliveryMeasures, Outbox
from evenflow.fargate_handler.gateway.connections.processes import (
    Place,
    Siblings,
    public_addresses,
    public_sockets,
)
from evenflow.fargate_handler.gateway.connections.reconnect_rate import ReconnectRate
from evenflow.fargate_handler.gateway.connections.revocation import Revocation
from evenflow.fargate_handler.gateway.http_endpoints import HttpEndpoints
from evenflow.fargate_handler.gateway.websocket_endpoint import WebSocketEndpoint
from evenflow.fargate_handler.membership import Membership
from evenflow.fargate_handler.orchestrator.agent_requests import AgentRequests
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
from evenflow.fargate_handler.settings.agents_file import read_agents
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError, HandlerSettings
from evenflow.stream_core.auth.allowed_hosts import AllowedHosts
from evenflow.stream_core.auth.allowed_origins import AllowedOrigins
from evenflow.stream_core.auth.oidc import IdentityTokens
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.agents import Agents
from evenflow.stream_core.base.client_address import TrustedProxies
from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.base.public_models import names_at_server
from evenflow.stream_core.bounds.address_rates import AddressRates
from evenflow.stream_core.bounds.call_rates import CallRates
from evenflow.stream_core.bounds.connection_places import ConnectionPlaces, most_served
from evenflow.stream_core.bounds.node_load import LoadFigure, NodeUse
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock
from evenflow.stream_core.delivery.departures import Departures
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.records.connection_records import ShadowRecord
from evenflow.stream_core.tenants.quotas import Quotas
from evenflow.stream_core.tenants.registry import Tenants

if TYPE_CHECKING:
    from evenflow.fargate_handler.tracing.answer_trace import AnswerTraces
    from evenflow.stream_aws.key_secret import Keys, KeySecret

_logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
# A process that swept so late was stopped: its clients' sockets come before they are judged.
_STOPPED_SECONDS = 5.0
_KEYS_SECONDS = 300.0
# An administrator's change is in force everywhere within 5 s.
_TENANTS_SECONDS = 3.0
# The end of the drain is for writing and closing. It has at least so long, however short the drain
# is.
_FLUSH_SECONDS = 5.0
_FLUSH_SHARE = 0.5
# While draining, how often to check whether everything has ended.
_DRAIN_STEP_SECONDS = 0.05
# Clients of a leaving task go in the first part of its time. The rest is for those that read to the
# end.
_SLOTS_SHARE = 0.75
# Per step. Telling ten thousand clients at once would delay all streams.
_TOLD_AT_ONCE = 100
# When an owner says nothing for so long, its lease is read: it may be lost.
_SILENCE_SECONDS = 2.5


class Handler:
    """One handler: one process, one event loop.

    Args:
        leave: asks this process to leave.
        name: this task's id, unlike all others'. None: a new one.
        garbage: collects garbage while the node is quiet.
        place: which of several processes this is.
        monotonic: seconds, for all that is measured here.
        wall_time: seconds since the epoch, for what other tasks read.

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
        place: Place | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall_time: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._node_id = name or secrets.token_hex(8)
        self._adapters = adapters
        self._place = place
        # Not loop.time: in uvloop its resolution is a millisecond.
        self._monotonic = monotonic
        self._wall_time = wall_time
        self._clock = DeliveryClock(monotonic(), settings)
        self._metrics = metrics
        self._measures = DeliveryMeasures(self._metrics)
        self._load = LoadFigure(settings)
        self._outbox = Outbox(loop.call_soon, self._measures)
        self._driver = ClockDriver(self._clock, loop, monotonic, self._outbox.flush)
        self._agents = Agents(read_agents(settings))
        self._source = chosen_source(settings, self._clock)
        self._background = Background()
        self._tokens = SessionTokens(adapters.signing_keys)
        # Where functions open the sessions, tenants have keys, whether or not this task knows them.
        known = settings.token_keys_secret is None or adapters.tenant_key_secret is not None
        oidc = settings.oidc
        self._tenants = Tenants(
            adapters.tenant_keys,
            known=known,
            identified=oidc is not None,
            claimed=oidc is not None and oidc.needs_record,
            open_tenant=settings.open_tenant,
            closed=adapters.tenant_key_secret is not None,
            wall_time=wall_time,
        )
        self._quotas = Quotas(self._tenants, self._taken_in_shadow)
        self._filters = chosen_filters(settings, self._tenants, metrics, monotonic)
        self._identities = (
            None
            if oidc is None
            else IdentityKeys(IdentityTokens(oidc), self._background, wall_time)
        )
        self._peers = Peers(self._tokens, _SILENCE_SECONDS, wall_time)
        self._membership = Membership(
            NodeContext(
                settings,
                self._clock,
                metrics,
                monotonic,
                wall_time,
                traces=self._answer_traces(),
                tenants=self._tenants,
                quotas=self._quotas,
                filters=self._filters,
            ),
            adapters.stores,
            ServedModel(
                self._source,
                AgentRequests(self._agents, settings.served_models),
                settings.fallback_text,
                name=settings.own_model_name,
                prices=settings.prices,
                longest=settings.model_max_tokens,
                context=settings.model_context_tokens,
                repeats_broken=settings.repeats_broken_answers,
                repeats_lost=settings.model_repeatable is not False,
                served=names_at_server(settings.served_models, settings.own_model_name),
            ),
            name=self._node_id,
            address=own_address(settings, adapters.peer_address)
            if place is None
            else place.own_address,
            peers=self._peers,
            usage_folder=settings.store_path.parent / "usage"
            if settings.store == "sqlite"
            else None,
        )
        self._orchestrator = self._membership.orchestrator
        self._registry = ConnectionRegistry(settings)
        self._accepted = AcceptedConnections(
            ConnectionPlaces(
                most_served(open_files(), settings.descriptors_reserved), settings.bodies_per_node
            ),
            metrics.labelled(catalogue.CONNECTIONS_CUT),
        )
        context = self._context()
        self._revocation = Revocation(context)
        websockets = WebSocketEndpoint(context)
        siblings = None if place is None else Siblings(place, self._peers.metrics_page)
        self._http = HttpEndpoints(context, settings.page, leave, websockets, siblings)
        self._listener = Listener(
            websockets.take, self._http.take, self._accepted, context.turns, settings.head_seconds
        )
        self._protecting: asyncio.Task[None] | None = None
        self._garbage = garbage
        self._minute = _minute_of(self._wall_time())
        self._swept_at = self._monotonic()
        self._read_keys_at = self._monotonic() + _KEYS_SECONDS
        self._look_at_tenants_at = self._monotonic() + _TENANTS_SECONDS
        self._metrics.end_minute(self._monotonic())
        self._register_gauges()

    @property
    def serves(self) -> str:
        """Its addresses, for the log."""
        return public_addresses(self._settings)

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: a port or the store can't be used. The message names the variable.
        """
        settings = self._settings
        await self._membership.start()
        await self._http.start()
        if self._place is None:
            (sockets,) = public_sockets(settings)
        else:
            sockets = self._place.sockets(settings)
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

    def stand_in(self, place: Place, number: int) -> None:
        """Accept what comes for another process of this machine, which has ended."""
        self._background.run(self._listener.start(place.sockets_of(number), number))

    def stand_down(self, number: int) -> None:
        """Another process serves again."""
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
        """Leave: accept nothing new, tell each client when to go, hand over what has not ended."""
        self._orchestrator.stop_accepting()
        if self._protecting is not None:
            self._protecting.cancel()
        begun, seconds = self._monotonic(), self._settings.drain_seconds
        connections, answers = list(self._registry), self._orchestrator.answering
        clients: list[Movable] = [*connections, *self._registry.streams]
        random.shuffle(clients)
        to_go = seconds - min(_FLUSH_SECONDS, seconds * _FLUSH_SHARE)
        departures = Departures(
            clients,
            begun,
            per_second=self._settings.drain_connections_per_second,
            first_until=begun + to_go * _SLOTS_SHARE,
            until=begun + to_go - _DRAIN_STEP_SECONDS,
        )
        while (
            self._orchestrator.busy or len(self._registry) or self._registry.streams
        ) and self._monotonic() < begun + to_go:
            self._tell_their_slots(departures, _TOLD_AT_ONCE)
            self._close_those_whose_slot_is_over(departures)
            await asyncio.sleep(_DRAIN_STEP_SECONDS)
        self._tell_their_slots(departures)
        self._count_outcomes(len(connections), answers)
        await self._membership.leave(max(begun + seconds, self._monotonic() + _FLUSH_SECONDS))
        self._registry.close_all(CloseCode.GOING_AWAY, "this node is leaving")

    async def stop(self) -> None:
        """Close everything. What hasn't ended stays in the store. No task runs afterwards."""
        self._listener.stop_accepting()
        await self._http.stop()
        self._driver.stop()
        await self._background.aclose()
        await self._membership.aclose()
        await self._source.close()
        await self._filters.close()
        await self._peers.close()
        if self._adapters.publication is not None:
            await self._adapters.publication.close(self._metrics.snapshot(), self._minute)

    def on_due(self, _slot: int) -> None:
        """Once a second: forget what is old, check slow readers, look for changes, and end the
        metrics' minute.
        """
        self._clock.put_after(self, _SWEEP_SECONDS)
        now = self._monotonic()
        swept_at, self._swept_at = self._swept_at, now
        self._orchestrator.sweep(now)
        if now - swept_at < _STOPPED_SECONDS:
            for watched in tuple(self._registry.slow):
                watched.look_at_readers(now)
        self._load.sample(self._use())
        closed = self._registry.let_go_of_unsent(self._orchestrator.memory.unsent)
        self._measures.too_slow.value += closed
        self._accepted.log()
        if self._garbage is not None:
            self._garbage.look(now, len(self._accepted), self._orchestrator.answering)
        if now >= self._read_keys_at:
            self._read_keys_at = now + _KEYS_SECONDS
            self._read_all_keys()
        self._revocation.sweep(now)
        self._look_at_file(now)
        if (room := self._adapters.stores.room) is not None:
            self._background.run(room.tidy())
        records = self._membership.tenant_records
        if records is not None and now >= self._look_at_tenants_at:
            self._look_at_tenants_at = now + _TENANTS_SECONDS
            self._background.run(records.look())
        if _minute_of(self._wall_time()) > self._minute:
            self._end_minute(now)

    def _look_at_file(self, now: float) -> None:
        """Check that the stores' file still exists. Adopt keys and tenants of a file put back."""
        watch = self._adapters.stores.watch
        key = None if watch is None else watch.look(now, needs_tenants=bool(self._tenants.records))
        if key is None:
            return
        self._tokens.replace_keys(self._settings.signing_keys_beside(key))
        if self._membership.tenant_records is not None:
            self._membership.tenant_records.expect_others()
            self._look_at_tenants_at = now

    def _end_minute(self, now: float) -> None:
        # By the wall clock, so that all tasks have the same minutes.
        ended, self._minute = self._minute, _minute_of(self._wall_time())
        for of_open in (catalogue.DEAD_CONNECTIONS_RATE, catalogue.RESET_RATE):
            self._metrics.ratio(of_open).whole += len(self._registry)
        self._metrics.end_minute(now)
        if self._adapters.publication is not None:
            self._adapters.publication.minute_ended(self._metrics.snapshot(), ended)

    def _taken_in_shadow(self, tenant: str, refusal: RateLimited) -> None:
        self._metrics.labelled(catalogue.SHADOW_REFUSALS).count(refusal.code)
        limit, wait_ms = refusal.extra["limit"], refusal.retry_after_ms
        log_event(
            ShadowRecord(tenant=tenant, code=refusal.code, limit=limit, retry_after_ms=wait_ms)
        )

    def _read_all_keys(self) -> None:
        """Read the keys again, so that a rotation is noticed within minutes."""
        signing, tenants = self._adapters.signing_key_secret, self._adapters.tenant_key_secret
        if signing is not None:
            self._background.run(
                _read_keys(signing, self._tokens.replace_keys, "the signing keys stay as they are")
            )
        if tenants is not None:
            self._background.run(
                _read_keys(
                    tenants,
                    self._tenants.replace_given_keys,
                    "the tenant keys stay as they are",
                )
            )

    def _tell_their_slots(self, departures: Departures[Movable], most: int | None = None) -> None:
        """Tell the next clients when to reconnect."""
        now = self._monotonic()
        for slot, client in departures.next_departures(most):
            client.ask_to_reconnect("this node is leaving", int(max(0.0, slot - now) * 1000))

    def _close_those_whose_slot_is_over(self, departures: Departures[Movable]) -> None:
        """Close connections whose slot has passed. Those that read an answer get another slot.

        Clients of event streams leave by themselves, or at the end of the answer.
        """
        now, went = self._monotonic(), self._metrics.labelled(catalogue.DRAINED_CONNECTIONS)
        over = set(departures.over(now))
        for connection in self._registry if over else ():
            if connection not in over:
                continue
            reading, before = connection.reading, len(self._registry)
            if not (reading and departures.put_back(connection, now)):
                connection.close(CloseCode.GOING_AWAY, "this node is leaving")
                if len(self._registry) < before:
                    went.count("cut" if reading else "closed")

    def _count_outcomes(self, connections: int, answers: int) -> None:
        """Count how a drain went that began with so many."""
        went = self._metrics.labelled(catalogue.DRAINED_CONNECTIONS)
        went.count("cut", times=len(self._registry))
        went.count("moved", times=max(0, connections - went.value))
        left = min(answers, self._orchestrator.answering)
        ended = self._metrics.labelled(catalogue.DRAINED_ANSWERS)
        ended.count("finished", times=answers - left)
        ended.count("handed_over", times=left)

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

    def _context(self) -> GatewayContext:
        settings, watch = self._settings, self._adapters.stores.watch
        return GatewayContext(
            limits=settings,
            clock=self._clock,
            metrics=self._metrics,
            measures=self._measures,
            load=self._load,
            outbox=self._outbox,
            orchestrator=self._orchestrator,
            registry=self._registry,
            work=ReadingWork(settings, self._monotonic, self._orchestrator.memory.requests),
            accepted=self._accepted,
            turns=AddressTurns(),
            reconnects=ReconnectRate(settings, self._monotonic()),
            sessions_opened=AddressRates(settings.sessions_per_address_per_second),
            calls=CallRates(settings),
            background=self._background,
            tokens=self._tokens,
            tenants=self._tenants,
            quotas=self._quotas,
            filters=self._filters,
            monotonic=self._monotonic,
            wall_time=self._wall_time,
            http_url=str(settings.public_http_url).rstrip("/")
            if settings.public_http_url
            else None,
            ws_url=str(settings.public_ws_url) if settings.public_ws_url else None,
            http_port=settings.http_port,
            ws_port=settings.ws_port,
            metrics_port=settings.metrics_port,
            allowed_origins=AllowedOrigins(settings.allowed_origins),
            trusted_proxies=TrustedProxies(settings.trusted_proxies),
            allowed_hosts=AllowedHosts(settings.callable_as),
            drain_key=settings.drain_key.get_secret_value() if settings.drain_key else None,
            node_id=self._node_id,
            cookie_secure=settings.cookie_secure,
            models=tuple(settings.served_models),
            agents=self._agents,
            identities=self._identities,
            store_is_lost=lambda: watch is not None and watch.is_lost,
        )


async def _read_keys(
    secret: KeySecret[Keys], replace: Callable[[Keys], None], otherwise: str
) -> None:
    """Replace the keys. If they can't be read, the old ones stay and `otherwise` is logged."""
    try:
        replace(await secret.read())
    except Exception as error:
        _logger.error("%s: %s", otherwise, error)


def _minute_of(wall_time: float) -> int:
    """The beginning of a time's minute, in seconds since the epoch."""
    return int(wall_time // 60) * 60
