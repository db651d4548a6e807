"""Puts the handler together, starts it, and lets it leave without losing an answer."""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fargate_handler.adapters import Adapters, Stores
from fargate_handler.background import Background
from fargate_handler.clock_driver import ClockDriver
from fargate_handler.garbage_collection import GarbageCollection
from fargate_handler.gateway.connection_registry import ConnectionRegistry
from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.delivery_measures import DeliveryMeasures
from fargate_handler.gateway.http_listener import HttpListener
from fargate_handler.gateway.outbox import Outbox
from fargate_handler.gateway.websocket_listener import WebSocketListener
from fargate_handler.metrics import Metrics
from fargate_handler.orchestrator.message_ledger import MessageLedger
from fargate_handler.orchestrator.orchestrator import Orchestrator
from fargate_handler.orchestrator.response_recorder import ResponseRecorder
from fargate_handler.settings import ConfigurationError, HandlerSettings
from fargate_handler.token_sources.demo.passages import Passages
from fargate_handler.token_sources.demo.source import DemoModel
from fargate_handler.token_sources.openai import OpenAIModel
from fargate_handler.token_sources.port import TokenSource
from stream_core import metric_catalogue as catalogue
from stream_core.channel import Channel
from stream_core.delivery_clock import DeliveryClock
from stream_core.errors import Overloaded
from stream_core.response_store import StoreUnavailable
from stream_core.response_stream import ResponseStream
from stream_core.session import CloseCode
from stream_core.session_token import SessionTokens

if TYPE_CHECKING:
    from stream_aws.signing_key_secret import SigningKeySecret

_logger = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0
_KEYS_SECONDS = 300.0
# What is still unwritten when the drain's time is over has this much longer.
_FLUSH_SECONDS = 5.0
# While draining, how often to see whether everything has ended.
_DRAIN_STEP_SECONDS = 0.05
# A session that there is none of, to try the tables with.
_NOBODY = Channel("evenflow", "start", "nobody")
# Clients come back spread over so long at most.
_RECONNECT_SPREAD_MS = 5_000


class Handler:
    """One handler task: one process, one event loop."""

    def __init__(
        self, settings: HandlerSettings, loop: asyncio.AbstractEventLoop, metrics: Metrics, adapters: Adapters
    ) -> None:
        self._settings = settings
        self._node_id = secrets.token_hex(8)
        self._adapters = adapters
        # Not loop.time: uvloop's has a resolution of a millisecond.
        self._monotonic: Callable[[], float] = time.monotonic
        self._clock = DeliveryClock(time.monotonic(), settings.batch_window_ms, settings.batch_window_max_ms)
        self._metrics = metrics
        self._measures = DeliveryMeasures(self._metrics)
        self._outbox = Outbox(loop.call_soon, self._measures)
        self._driver = ClockDriver(self._clock, loop, time.monotonic, self._outbox.flush)
        self._source = _token_source(settings, self._clock)
        self._background = Background()
        self._tokens = SessionTokens(adapters.signing_keys)
        self._recorder = self._make_recorder(adapters.stores) if adapters.stores else None
        self._orchestrator = Orchestrator(
            source=self._source,
            clock=self._clock,
            limits=settings,
            metrics=self._metrics,
            fallback_text=settings.fallback_text,
            monotonic=self._monotonic,
            ledger=self._make_ledger(),
        )
        self._registry = ConnectionRegistry(settings)
        context = self._context()
        self._http = HttpListener(context, settings.page)
        self._websockets = WebSocketListener(context)
        self._garbage = GarbageCollection(self._monotonic())
        self._minute = _minute_of(time.time())
        self._read_keys_at = self._monotonic() + _KEYS_SECONDS
        self._metrics.end_minute(self._monotonic())
        recorder = self._recorder
        self._metrics.gauge(catalogue.STORE_BACKLOG, lambda: recorder.backlog_bytes if recorder else 0)
        self._metrics.gauge(catalogue.ACTIVE_CONNECTIONS, lambda: len(self._registry))
        self._metrics.gauge(catalogue.CLOCK_INTERVAL, lambda: self._clock.interval * 1000)
        self._metrics.gauge(catalogue.CLOCK_LATENESS, lambda: self._clock.lateness * 1000)

    async def start(self) -> None:
        """Listen on both ports.

        Raises:
            ConfigurationError: a port or the store can't be had; the message names the variable.
        """
        settings = self._settings
        if self._recorder is not None and self._adapters.stores is not None:
            await _begin_recording(self._recorder, self._adapters.stores)
        await _listen("HTTP", settings.http_host, settings.http_port, self._http.start)
        await _listen("WS", settings.ws_host, settings.ws_port, self._websockets.start)
        self._driver.start()
        self._garbage.start()
        self._clock.put_after(self, _SWEEP_SECONDS)

    async def drain(self) -> None:
        """Leave: no new work, running answers finish if they fit into the drain time, every client is told."""
        self._orchestrator.draining = True
        for connection in self._registry:
            connection.ask_to_reconnect("this node is leaving", random.randrange(_RECONNECT_SPREAD_MS))
        deadline = self._monotonic() + self._settings.drain_seconds
        await self._until_idle(deadline)
        self._orchestrator.interrupt_all(
            Overloaded(
                "the node left before the answer was finished; what was delivered is kept, ask again", code="draining"
            )
        )
        if self._recorder is not None:
            flush_until = max(deadline, self._monotonic() + _FLUSH_SECONDS)
            await self._until_idle(flush_until)  # what was still being accepted
            await self._recorder.drain(flush_until)
        self._websockets.close_all(CloseCode.GOING_AWAY, "this node is leaving")

    async def stop(self) -> None:
        """Close everything."""
        self._websockets.stop_accepting()
        await self._http.stop()
        await self._source.close()
        self._driver.stop()
        if self._adapters.publication is not None:
            await self._adapters.publication.close(self._metrics.snapshot(), self._minute)

    def on_due(self, _slot: int) -> None:
        """Once a second: forget what is old, look at slow readers, take stock of the minute."""
        self._clock.put_after(self, _SWEEP_SECONDS)
        now = self._monotonic()
        self._orchestrator.sweep(now)
        for connection in tuple(self._registry.slow):
            connection.look_at_readers(now)
        self._garbage.when_quiet(now, len(self._registry), self._orchestrator.busy)
        if now >= self._read_keys_at and self._adapters.signing_key_secret is not None:
            self._read_keys_at = now + _KEYS_SECONDS
            self._background.run(self._read_keys(self._adapters.signing_key_secret))
        if _minute_of(time.time()) > self._minute:
            self._end_minute(now)

    def _end_minute(self, now: float) -> None:
        # By the wall clock, so that all tasks speak of the same minute.
        ended, self._minute = self._minute, _minute_of(time.time())
        self._metrics.ratio(catalogue.DEAD_CONNECTIONS_RATE).whole += len(self._registry)
        self._metrics.end_minute(now)
        if self._adapters.publication is not None:
            self._adapters.publication.minute_ended(self._metrics.snapshot(), ended)

    async def _read_keys(self, secret: SigningKeySecret) -> None:
        """A rotation is seen within minutes; keys that can't be read leave the old ones in force."""
        try:
            self._tokens.replace_keys(await secret.read())
        except Exception as error:
            _logger.error("the signing keys stay as they are: %s", error)

    def _make_recorder(self, stores: Stores) -> ResponseRecorder:
        return ResponseRecorder(
            responses=stores.responses,
            sessions=stores.sessions,
            owner=self._node_id,
            clock=self._clock,
            limits=self._settings,
            metrics=self._metrics,
            monotonic=self._monotonic,
            wall_time=time.time,
            on_lost=self._lost,
        )

    def _make_ledger(self) -> MessageLedger | None:
        stores, recorder = self._adapters.stores, self._recorder
        if stores is None or recorder is None:
            return None
        refused = self._metrics.counter(catalogue.STORE_REFUSED)
        return MessageLedger(stores.sessions, recorder, self._node_id, time.time, refused)

    def _lost(self, stream: ResponseStream) -> None:
        self._orchestrator.interrupt(
            stream,
            Overloaded(
                "another task has taken this answer over; what was delivered is kept, poll for it", code="taken_over"
            ),
        )

    async def _until_idle(self, deadline: float) -> None:
        while self._orchestrator.busy and self._monotonic() < deadline:
            self._close_those_that_have_everything()
            await asyncio.sleep(_DRAIN_STEP_SECONDS)

    def _close_those_that_have_everything(self) -> None:
        for connection in self._registry:
            if not connection.reading:
                connection.close(CloseCode.GOING_AWAY, "this node is leaving")

    def _context(self) -> GatewayContext:
        settings = self._settings
        return GatewayContext(
            limits=settings,
            clock=self._clock,
            metrics=self._metrics,
            measures=self._measures,
            outbox=self._outbox,
            orchestrator=self._orchestrator,
            registry=self._registry,
            background=self._background,
            tokens=self._tokens,
            tenant_keys={tenant: key.get_secret_value() for tenant, key in settings.tenant_keys.items()},
            monotonic=self._monotonic,
            wall_time=time.time,
            http_url=str(settings.public_http_url).rstrip("/") if settings.public_http_url else None,
            ws_url=str(settings.public_ws_url) if settings.public_ws_url else None,
            ws_port=settings.ws_port,
            node_id=self._node_id,
            cookie_secure=settings.cookie_secure,
        )


def _token_source(settings: HandlerSettings, clock: DeliveryClock) -> TokenSource:
    if settings.model == "openai":
        key = settings.model_api_key
        return OpenAIModel(str(settings.model_url), settings.model_name, key.get_secret_value() if key else None)
    if settings.model == "bedrock":
        from fargate_handler.token_sources.bedrock import BedrockModel  # noqa: PLC0415 - the AWS SDK, only where it is used

        return BedrockModel(settings.model_name, settings.model_max_tokens, settings.generations_per_node)
    if settings.model == "sagemaker":
        from fargate_handler.token_sources.sagemaker import SageMakerModel  # noqa: PLC0415 - likewise

        return SageMakerModel(settings.model_name, settings.model_max_tokens, settings.generations_per_node)
    return DemoModel(Passages.read(settings.docs), clock, settings.demo_seed)


def _minute_of(wall_time: float) -> int:
    """The whole minute that a time is in, in seconds since the epoch."""
    return int(wall_time // 60) * 60


async def _begin_recording(recorder: ResponseRecorder, stores: Stores) -> None:
    """Try all three tables, so that a wrong name is found now and not by the first message."""
    try:
        await recorder.start()
        await stores.sessions.load(_NOBODY, time.time())
        await stores.sessions.answered(_NOBODY, "nothing", None)
    except StoreUnavailable as error:
        raise ConfigurationError(
            f"EVENFLOW_STORE=dynamodb: the tables can't be reached ({error}); check the network and AWS_REGION"
        ) from error
    except Exception as error:
        raise ConfigurationError(
            f"EVENFLOW_RESPONSES_TABLE, EVENFLOW_SESSIONS_TABLE or EVENFLOW_LEDGER_TABLE can't be used ({error}); "
            "check their names and the task's role"
        ) from error


async def _listen(kind: str, host: str, port: int, start: Callable[[str, int], Awaitable[None]]) -> None:
    try:
        await start(host, port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise ConfigurationError(
                f"EVENFLOW_{kind}_HOST={host} (EVENFLOW_{kind}_PORT={port}): cannot listen there ({error.strerror or error})"
            ) from error
        raise ConfigurationError(
            f"EVENFLOW_{kind}_PORT={port}: cannot listen on {host}:{port} ({error.strerror or error}); "
            f"choose another, e.g. `make run {kind}_PORT={port + 100}`"
        ) from error
