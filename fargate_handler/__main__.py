"""`python -m fargate_handler`: a handler, until it is told to leave. `--role worker`: a worker."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import uvloop

from fargate_handler.background import Background
from fargate_handler.chosen_adapters import open_adapters
from fargate_handler.handler import Handler
from fargate_handler.memory import GarbageCollection, memory_bytes, warn_of_too_little_memory
from fargate_handler.metrics import Metrics
from fargate_handler.scale_in_protection import deactivated
from fargate_handler.settings import ConfigurationError, HandlerSettings, load_settings

_logger = logging.getLogger("evenflow")

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Serving(Protocol):
    """A `Handler` or a `Worker`."""

    @property
    def serves(self) -> str: ...

    async def start(self) -> None: ...

    async def drain(self) -> None: ...

    async def stop(self) -> None: ...


def main() -> int:
    """Run. Returns the exit status: 0 after leaving in order, 2 for a wrong configuration."""
    parser = argparse.ArgumentParser(
        prog="python -m fargate_handler", description="Serve until told to leave."
    )
    parser.add_argument(
        "--role", choices=("handler", "worker"), default="handler", help="default: %(default)s"
    )
    serve = _serve_model if parser.parse_args().role == "worker" else _serve
    try:
        settings = load_settings()
        logging.basicConfig(level=settings.log_level.upper(), format=LOG_FORMAT)
        # gRPC's core writes to standard error, also what its callers are told anyway.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        quieten_libraries()
        uvloop.run(serve(settings))
    except ConfigurationError as error:
        print(f"evenflow: {error}", file=sys.stderr)
        return 2
    return 0


def quieten_libraries() -> None:
    """Keep useless messages of libraries out of the log."""
    # At level info picows logs each connection, and the AWS SDK where it found its settings.
    for library in ("picows", "aiobotocore", "botocore"):
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.getLogger().level))
    # aiohttp logs a traceback for every malformed request, and gRPC one for a call that is
    # cancelled as it comes in. We log what fails in our own code.
    for library in ("aiohttp.server", "grpc._cython.cygrpc"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


async def _serve(settings: HandlerSettings) -> None:
    _raise_file_limit(settings.connections_per_node)
    warn_of_too_little_memory(settings, memory_bytes())
    loop = asyncio.get_running_loop()
    leave, metrics = Leave(), Metrics()
    async with open_adapters(settings, metrics) as adapters:
        garbage = GarbageCollection(time.monotonic())
        handler = Handler(settings, loop, metrics, adapters, leave.ask, garbage=garbage)
        garbage.start()
        if settings.agents is not None:
            loop.add_signal_handler(signal.SIGHUP, handler.reload_agents)
        if adapters.ecs_task is not None:
            leave.when(deactivated(adapters.ecs_task))
        with _signals(leave):
            await serve_until_asked(settings, handler, leave)


async def _serve_model(settings: HandlerSettings) -> None:
    # gRPC is loaded only where it is used.
    from fargate_handler.inference.worker import Worker  # noqa: PLC0415

    leave = Leave()
    with _signals(leave):
        await serve_until_asked(settings, Worker(settings, asyncio.get_running_loop()), leave)


async def serve_until_asked(settings: HandlerSettings, handler: _Serving, leave: Leave) -> None:
    """Start it, and drain it when it is asked to leave. A second signal ends the drain."""
    background = Background()
    try:
        await handler.start()
        _logger.info("serving %s, model %s; Ctrl-C leaves", handler.serves, settings.model)
        await leave.asked.wait()
        _logger.info(
            "leaving: running answers finish within %g s; a second signal leaves at once",
            settings.drain_seconds,
        )
        drain = background.run(handler.drain())
        hurry = background.run(leave.insisted.wait())
        await asyncio.wait((drain, hurry), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leave.stop()
        await background.aclose()
        await handler.stop()


class Leave:
    """The request to leave, by a signal, a call or a deactivation. A second signal insists."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()
        self._signalled = False
        self._watching: asyncio.Task[None] | None = None

    def signal(self) -> None:
        """Note a signal. The first one after a deactivation doesn't insist: the drain goes on."""
        if self._signalled:
            self.insisted.set()
        self._signalled = True
        self.asked.set()

    def ask(self) -> None:
        """Leave, because somebody on this machine asks."""
        self.asked.set()

    def when(self, reason: Coroutine[Any, Any, None]) -> None:
        """Leave when `reason` returns, too."""
        self._watching = asyncio.get_running_loop().create_task(self._ask_after(reason))

    def stop(self) -> None:
        """Stop waiting for the other reason."""
        if self._watching is not None:
            self._watching.cancel()

    async def _ask_after(self, reason: Coroutine[Any, Any, None]) -> None:
        await reason
        self.asked.set()


@contextmanager
def _signals(leave: Leave) -> Iterator[None]:
    """Leave on SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, leave.signal)
    try:
        yield
    finally:
        # A signal that comes while the process ends, also between these two calls, would otherwise
        # kill it with a wrong exit status.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _raise_file_limit(connections: int) -> None:
    """Raise the limit of open files, since each connection is one. Warn if it stays too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 1024
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft < wanted:
        _logger.warning(
            "the limit of open files is %d, which is too low for %d connections: "
            "raise it (ulimit -n) or lower "
            "EVENFLOW_CONNECTIONS_PER_NODE", soft, connections,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
