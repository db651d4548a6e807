"""A handler that serves until SIGTERM, or a worker: a process of `evenflow serve`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import secrets
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import uvloop

from evenflow import __version__, is_compiled
from evenflow.fargate_handler.chosen_adapters import open_adapters, open_tracing
from evenflow.fargate_handler.gateway.connections.processes import (
    ProcessIdentity,
    SupervisorLine,
    public_addresses,
    public_sockets,
    reserved_ports,
)
from evenflow.fargate_handler.gateway.http_endpoints import NO_PAGE
from evenflow.fargate_handler.node import Node
from evenflow.fargate_handler.runtime.background import Background
from evenflow.fargate_handler.runtime.bounded_log import BoundedLog, LineWriter
from evenflow.fargate_handler.runtime.leave import Leave, signals
from evenflow.fargate_handler.runtime.log_formats import TEXT_FORMAT, JsonFormatter, LineFormatter
from evenflow.fargate_handler.runtime.memory import (
    GarbageCollection,
    memory_bytes,
    warn_of_too_little_memory,
)
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.runtime.standard_descriptors import open_standard_descriptors
from evenflow.fargate_handler.scale_in_protection import deactivated
from evenflow.fargate_handler.settings.forward_proxy import except_loopback
from evenflow.fargate_handler.settings.handler_settings import (
    ConfigurationError,
    HandlerSettings,
    load_settings,
)
from evenflow.fargate_handler.supervisor import (
    WRONG_CONFIGURATION,
    HandlerProcess,
    Supervisor,
    start_handler,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics import metric_catalogue as catalogue

if TYPE_CHECKING:
    from evenflow.fargate_handler.tracing.call_trace import CallTraces
    from evenflow.fargate_handler.tracing.exporting import Tracing

_logger = logging.getLogger("evenflow.process")

ROLES = ("handler", "worker")
"""What a process may be."""


class _Serving(Protocol):
    """A `Node` or a `Worker`."""

    @property
    def public_addresses(self) -> str: ...

    async def start(self) -> None: ...

    async def drain(self) -> None: ...

    async def stop(self) -> None: ...


def main() -> int:
    """Serve as the arguments say. Returns the exit status."""
    open_standard_descriptors()
    parser = argparse.ArgumentParser(
        prog="python -m evenflow.fargate_handler", description="Serve until told to leave."
    )
    parser.add_argument("--role", choices=ROLES, default=ROLES[0], help="default: %(default)s")
    # Which of several handlers this is. The supervisor sets it.
    parser.add_argument("--process", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    process = arguments.process
    try:
        return run(
            arguments.role,
            None if process is None else ProcessIdentity.model_validate_json(process),
        )
    except ConfigurationError as error:
        print(f"evenflow: {error}", file=sys.stderr)
        return WRONG_CONFIGURATION


def run(role: str, process: ProcessIdentity | None = None) -> int:
    """Serve until a signal ends the process. Returns the exit status: 0 after leaving in order.

    Args:
        process: where this is one of several handlers under a supervisor.

    Raises:
        ConfigurationError: a variable is wrong.
    """
    settings = load_settings()
    except_loopback()
    metrics = Metrics(None if process is None else process.number)
    node_id = secrets.token_hex(8)
    _log(settings, node_id, process, metrics)
    if role == "worker":
        uvloop.run(_serve_model(settings))
    elif process is None and settings.processes > 1:
        return uvloop.run(_supervise(settings))
    else:
        uvloop.run(_serve(settings, node_id, process, metrics))
    return 0


def _log(
    settings: HandlerSettings, node_id: str, process: ProcessIdentity | None, metrics: Metrics
) -> None:
    # Python has no standard error where its descriptor was closed.
    descriptor = sys.stderr.fileno() if sys.stderr else os.open(os.devnull, os.O_WRONLY)
    log = BoundedLog(LineWriter(descriptor), metrics.labelled(catalogue.LOG_LINES_DROPPED).count)
    default = "text" if os.isatty(descriptor) else "json"
    if (settings.log_format or default) == "text":
        of_process = "" if process is None else f"process {process.number}: "
        log.setFormatter(LineFormatter(TEXT_FORMAT.replace("%(m", f"{of_process}%(m")))
    else:
        log.setFormatter(
            JsonFormatter(
                {"task": node_id} | ({} if process is None else {"process": process.number})
            )
        )
    logging.basicConfig(level=settings.log_level.upper(), handlers=[log])
    # No line has them, and to find them takes a third of the time to make a record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    if process is not None:
        # The supervisor logs once for all processes that they serve, and that they leave.
        _logger.setLevel(logging.WARNING)
    # gRPC's core writes errors to standard error that its callers get anyway.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    quieten_libraries()


def quieten_libraries() -> None:
    """Keep useless messages of libraries out of the log."""
    # At level info picows logs each connection, and the AWS SDK where it found its settings; at
    # level debug urllib3 logs each export of traces.
    for library in ("picows", "aiobotocore", "botocore", "urllib3"):
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.getLogger().level))
    # aiohttp logs a traceback for every malformed request, and gRPC one for a call that is
    # cancelled as it comes in. We log what fails in our own code.
    for library in ("aiohttp.server", "grpc._cython.cygrpc"):
        logging.getLogger(library).setLevel(logging.CRITICAL)


async def _serve(
    settings: HandlerSettings, node_id: str, process: ProcessIdentity | None, metrics: Metrics
) -> None:
    leave = Leave()
    line = None if process is None else SupervisorLine(process.line, leave)
    ask_to_leave = leave.ask if line is None else line.ask_to_leave
    if line is None:
        _check_start(settings)
    loop = asyncio.get_running_loop()
    async with open_adapters(settings, metrics) as adapters:
        garbage = GarbageCollection(time.monotonic())
        node = Node(
            settings,
            loop,
            metrics,
            adapters,
            ask_to_leave,
            name=node_id,
            garbage=garbage,
            process=process,
        )
        garbage.start()
        if settings.agents is not None:
            loop.add_signal_handler(signal.SIGHUP, node.reload_agents)
        if adapters.ecs_task is not None:
            leave.when(deactivated(adapters.ecs_task), ask_to_leave)
        with signals(leave):
            if line is None or process is None:
                await serve_until_asked(settings, node, leave)
                return
            stand_in = partial(node.stand_in, process)
            serving = partial(line.serve, stand_in, node.stand_down)
            await serve_until_asked(settings, node, leave, serving)


async def _supervise(settings: HandlerSettings) -> int:
    """Run several handlers. Returns the exit status."""
    _check_start(settings)
    leave = Leave()
    sockets = public_sockets(settings)
    # They keep the ports until this process ends.
    reserved = reserved_ports(settings.processes, settings)
    ports = tuple(each.getsockname()[1] for each in reserved)

    async def spawn(number: int) -> HandlerProcess:
        return await start_handler(ProcessIdentity(number=number, ports=ports), sockets, leave.ask)

    supervisor = Supervisor(settings.processes, spawn, leave)
    if settings.agents is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, supervisor.reload)
    with signals(leave):
        described = f"{public_addresses(settings)}, {settings.described_model}"
        return await supervisor.run(f"{described}, {settings.processes} processes")


async def _serve_model(settings: HandlerSettings) -> None:
    # gRPC is loaded only where it is used.
    from evenflow.fargate_handler.worker import Worker  # noqa: PLC0415

    leave = Leave()
    async with open_tracing("evenflow-worker") as tracing:
        traces = None if tracing is None else _call_traces(tracing)
        worker = Worker(settings, asyncio.get_running_loop(), traces)
        with signals(leave):
            await serve_until_asked(settings, worker, leave)


def _call_traces(tracing: Tracing) -> CallTraces:
    # OpenTelemetry is loaded only where it is used.
    from evenflow.fargate_handler.tracing.call_trace import CallTraces  # noqa: PLC0415
    from evenflow.fargate_handler.tracing.spans import Spans  # noqa: PLC0415

    return CallTraces(Spans(tracing, time.monotonic, time.time))


def _nothing() -> None:
    pass


async def serve_until_asked(
    settings: HandlerSettings,
    server: _Serving,
    leave: Leave,
    serving: Callable[[], None] = _nothing,
) -> None:
    """Start a handler or worker, and drain it on the request to leave. A second signal ends it.

    Args:
        serving: called once it serves.
    """
    background = Background()
    try:
        await server.start()
        _logger.info(
            "serving %s, %s, %s %s; Ctrl-C leaves",
            server.public_addresses,
            settings.described_model,
            __version__,
            "compiled" if is_compiled() else "interpreted",
        )
        serving()
        await leave.asked.wait()
        _logger.info(
            "leaving: running answers finish within %g s; a second signal leaves at once",
            settings.drain_seconds,
        )
        drain = background.run(server.drain())
        hurry = background.run(leave.insisted.wait())
        await asyncio.wait((drain, hurry), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leave.stop()
        await background.aclose()
        await server.stop()


def _check_start(settings: HandlerSettings) -> None:
    _raise_file_limit(settings)
    warn_of_too_little_memory(settings, memory_bytes(), settings.processes)
    if not settings.has_page:
        _logger.warning(NO_PAGE)


def _raise_file_limit(limits: Limits) -> None:
    """Raise the limit of open files, since each connection is one. Warn if it stays too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = limits.connections_per_node
    least_files = connections + limits.descriptors_reserved
    most_files = least_files + limits.requests_per_node
    if soft < most_files:
        soft = most_files if hard == resource.RLIM_INFINITY else min(most_files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft < least_files:
        _logger.warning(
            "the limit of open files is %d, which is too low for %d connections: "
            "raise it (ulimit -n) or lower "
            "EVENFLOW_CONNECTIONS_PER_NODE", soft, connections,
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
