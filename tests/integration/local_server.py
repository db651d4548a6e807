"""The handler in the test's own loop: real sockets, and time that the test may turn."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import replace
from typing import Any, TypeVar, cast
from unittest.mock import patch

from evenflow.fargate_handler import __main__ as program
from evenflow.fargate_handler.adapters import Stores
from evenflow.fargate_handler.chosen_adapters import open_adapters
from evenflow.fargate_handler.gateway.evenflow.client_connection import ClientConnection
from evenflow.fargate_handler.gateway.websocket.websocket_transport import WebSocketTransport
from evenflow.fargate_handler.node import Node
from evenflow.fargate_handler.runtime.leave import Leave
from evenflow.fargate_handler.runtime.log_formats import TEXT_FORMAT, LineFormatter
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.scale_in_protection import deactivated
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError, load_settings
from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS
from tests.integration.server_process import DEFAULTS, Server, clean_environment

_STOP_SECONDS = 20.0
_PORTS = ("sessions", "responses", "leases", "dead_letters", "large_texts", "tenants", "usage")

T = TypeVar("T")

_current: ContextVar[LocalServer | None] = ContextVar("server", default=None)
"""In whose work this is: a server's tasks, and what its sockets call, inherit it."""


class Time:
    """Passes as it does, and besides when a test says so."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return time.monotonic() + self.ahead

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self.ahead


class _Log(logging.Handler):
    """What is logged in the work of one server, and what can't be told whose it is."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__()
        self.setFormatter(LineFormatter(TEXT_FORMAT))
        self._server = server
        self.addFilter(self._is_its_own)
        self.lines: list[str] = []

    def _is_its_own(self, record: logging.LogRecord) -> bool:
        made_by = _current.get()
        # In nobody's work asyncio speaks of the tests' own tasks.
        return made_by is self._server or (made_by is None and record.name != "asyncio")

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.lines.append(self.format(record))


class _Port:
    """A store as a machine on the network has it: once it is cut off no call returns."""

    def __init__(self, port: Any, cut_off: Callable[[], bool]) -> None:
        self._port, self._cut_off = port, cut_off
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        called = getattr(self._port, name)
        if not inspect.iscoroutinefunction(called):
            return called

        async def call(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            try:
                answer = None if self._cut_off() else await called(*arguments, **options)
            finally:
                self.calls -= 1
            return await asyncio.Future() if self._cut_off() else answer

        return call


class _Node(Node):
    """One that says when it serves."""

    serving: asyncio.Event

    async def start(self) -> None:
        await super().start()
        self.serving.set()


class LocalServer(Server):
    """`Node` in this loop, as `python -m evenflow.fargate_handler` runs it.

    `start` it before anything else.

    Args:
        variables: the whole environment, but its port.
        clock: its time.
        stores: in the place of those that the variables name.
        port: as `Server` has it.
    """

    look_seconds = 0.01

    def __init__(
        self,
        variables: Mapping[str, str],
        clock: Time,
        stores: Stores | None = None,
        port: int | None = None,
    ) -> None:
        super().__init__(port)
        self._variables = DEFAULTS | self.own_port | dict(variables)
        self._time, self._stores = clock, stores
        self._log = _Log(self)
        self._leave = Leave()
        self._serving = asyncio.Event()
        self._vanished = False
        self._handler: _Node | None = None
        self._leases: _Port | None = None
        self._metrics = Metrics()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when it serves.

        Raises:
            ConfigurationError: it can't, by these variables.
        """
        context = copy_context()
        context.run(_current.set, self)
        logging.getLogger().addHandler(self._log)
        self._running = asyncio.get_running_loop().create_task(self._run(), context=context)
        serving = asyncio.ensure_future(self._serving.wait())
        try:
            await asyncio.wait((self._running, serving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            serving.cancel()
        if self._running.done():
            logging.getLogger().removeHandler(self._log)
            self._running.result()

    async def _run(self) -> None:
        # What is opened here looks at the environment; a process has one of its own.
        environment = patch.dict(os.environ, clean_environment(self._variables), clear=True)
        with environment:
            settings = load_settings()
            logging.getLogger().setLevel(settings.log_level.upper())
            program.quieten_libraries()
            opened = open_adapters(settings, self._metrics)
            adapters = await opened.__aenter__()
        try:
            adapters = replace(adapters, stores=self._within_reach(self._stores or adapters.stores))
            loop = asyncio.get_running_loop()
            self._handler = handler = _Node(
                settings, loop, self._metrics, adapters, self._leave.ask,
                monotonic=self._time.monotonic, wall_time=self._time.wall,
            )  # fmt: skip
            handler.serving = self._serving
            if adapters.ecs_task is not None:
                self._leave.when(deactivated(adapters.ecs_task), self._leave.ask)
            await program.serve_until_asked(settings, handler, self._leave)
            # With the process its sockets would end.
            self._break_websockets()
        finally:
            await opened.__aexit__(None, None, None)

    def _within_reach(self, stores: Stores) -> Stores:
        ports: dict[str, Any] = {name: getattr(stores, name) for name in _PORTS}
        cut_off: dict[str, Any] = {
            name: _Port(port, lambda: self._vanished)
            for name, port in ports.items()
            if port is not None
        }
        self._leases = cut_off["leases"]
        return replace(stores, **cut_off)

    @property
    def renews(self) -> bool:
        """Whether it waits for the store to take its lease."""
        return self._leases is not None and self._leases.calls > 0 and not self._vanished

    @property
    def handler(self) -> Node:
        """What runs."""
        assert self._handler is not None, "the server has not been started"
        return self._handler

    @property
    def sockets(self) -> int:
        """How many connections it has, of all protocols."""
        return len(self.handler._accepted)

    @property
    def unsent_bytes(self) -> list[int]:
        """What each of its sockets has been given and didn't take."""
        server = self.handler._http._runner.server
        requests = [
            request.transport for request in (server.connections if server is not None else ())
        ]
        websockets = [
            cast("WebSocketTransport", cast("ClientConnection", each).transport)
            for each in self.handler._registry
        ]
        transports = [
            *requests,
            *(websocket._transport.underlying_transport for websocket in websockets),
        ]
        return [
            transport.get_write_buffer_size() for transport in transports if transport is not None
        ]

    @property
    def log(self) -> str:
        """What it has logged."""
        return "\n".join(self._log.lines)

    async def metrics_page(self) -> str:
        """What it measures, without a call."""
        return self._metrics.prometheus_page().decode()

    async def metric(self, name: str) -> float:
        """One sample, without the page of all of them: who waits asks a hundred times a second."""
        if "{" in name:
            return await super().metric(name)
        samples = (sample for family in self._metrics.families() for sample in family.samples)
        return next(
            sample.value
            for sample in samples
            if sample.name == f"evenflow_{name}" and not sample.labels
        )

    def leave(self) -> None:
        """What a signal does: the first asks it to leave, a second one to hurry."""
        self._leave.signal()

    async def ended(self, seconds: float = _STOP_SECONDS) -> None:
        """Wait until it has left."""
        assert self._running is not None
        async with asyncio.timeout(seconds):
            await asyncio.shield(self._running)

    async def vanish(self) -> None:
        """Go as a lost machine goes, without a word: no call of a store returns, its connections
        break.
        """
        handler, self._vanished = self.handler, True
        handler._driver.stop()
        handler._listener.stop_accepting()
        server = handler._http._runner.server
        for request in server.connections if server is not None else ():
            if request.transport is not None:
                request.transport.abort()
        self._break_websockets()
        await handler._source.close()

    def _break_websockets(self) -> None:
        for connection in self.handler._registry:
            cast("ClientConnection", connection).transport.disconnect(flush=False)

    async def stop(self) -> None:
        """Let it leave. What fails in that, and any traceback in its log, are failures of the
        test that used it.
        """
        assert self._running is not None
        try:
            if self._vanished:
                self._running.cancel()
                with suppress(asyncio.CancelledError):
                    await self._running
                return
            self._leave.asked.set()
            async with asyncio.timeout(_STOP_SECONDS):
                await self._running
        finally:
            logging.getLogger().removeHandler(self._log)
        assert "Traceback" not in self.log, f"the server's log has a traceback:\n{self.log}"

    def turn(self) -> None:
        """Turn its delivery clock to where its time is."""
        driver = self.handler._driver
        if driver._handle is not None and not self._vanished:
            driver.stop()
            driver._turn()

    def turn_to_sweep(self) -> None:
        """Turn its delivery clock, and everyone's time, to its next sweep. No socket has a turn."""
        swept_at = self.handler._swept_at
        while self.handler._swept_at == swept_at:
            self._time.ahead += SLOT_SECONDS
            self.turn()


class LocalServers:
    """Starts servers for one test: keyword `grace_seconds=1` is the variable
    `EVENFLOW_GRACE_SECONDS=1`.
    """

    def __init__(self) -> None:
        self.time = Time()
        self.started: list[LocalServer] = []
        self._shared: LocalServer | None = None
        # While one starts, the environment is its own.
        self._starting = asyncio.Lock()

    async def __call__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        stores: Stores | None = None,
        port: int | None = None,
        **settings: object,
    ) -> LocalServer:
        """Start one; `environment` has any other variables."""
        variables = {f"EVENFLOW_{name.upper()}": str(value) for name, value in settings.items()}
        server = LocalServer({**(environment or {}), **variables}, self.time, stores, port)
        async with self._starting:
            await server.start()
        self.started.append(server)
        return server

    async def shared(self) -> LocalServer:
        """The one with the defaults."""
        if self._shared is None:
            self._shared = await self()
        return self._shared

    async def time_passes(self, seconds: float) -> None:
        """Turn their time on, slot by slot, with the sockets' turn between them.

        It stands still while a lease is on its way to the store, which takes real time.
        """
        for _ in range(round(seconds / SLOT_SECONDS)):
            self.time.ahead += SLOT_SECONDS
            for server in self.started:
                server.turn()
            await asyncio.sleep(0)
            while any(server.renews for server in self.started):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def time_passes_until(self, done: Awaitable[T]) -> T:
        """Turn their time on until this is done; returns what it gives.

        Only for what waits for the servers' time alone: while it waits for anything real, such as a
        store on the network or a pause of a client, minutes may pass.
        """
        doing = asyncio.ensure_future(done)
        while not doing.done():
            await self.time_passes(SLOT_SECONDS)
        return doing.result()

    async def stop(self) -> None:
        """End them all."""
        failures = []
        for server in self.started:
            try:
                await server.stop()
            except AssertionError as failure:
                failures.append(str(failure))
        assert not failures, "\n".join(failures)


async def refusal(variables: Mapping[str, str]) -> str:
    """The one line with which a start under these variables is refused."""
    try:
        await LocalServer(variables, Time()).start()
    except ConfigurationError as refused:
        line = str(refused)
        assert line
        assert "\n" not in line
        return line
    raise AssertionError("it started")
