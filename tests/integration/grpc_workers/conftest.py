"""Workers in the test's own loop, with a scripted model or the demo model; and worker processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import grpc
import pytest

from evenflow.fargate_handler.inference.channel_options import worker_options
from evenflow.fargate_handler.inference.llm_v1.inference_pb2_grpc import (
    add_InferenceServicer_to_server,
)
from evenflow.fargate_handler.inference.service import InferenceService
from evenflow.fargate_handler.inference.worker_source import GrpcWorkers
from evenflow.fargate_handler.token_sources.port import TokenSource
from evenflow.stream_core.base.limits import Limits
from tests.integration.grpc_workers.line import Line
from tests.integration.grpc_workers.workers import WorkerInLoop, WorkerProcess

Workers = Callable[..., Awaitable[WorkerInLoop]]
"""Starts a worker with the demo model in this loop.

Keyword `drain_seconds=1` is the variable `EVENFLOW_DRAIN_SECONDS=1`.
"""

WorkerProcesses = Callable[..., WorkerProcess]
"""Likewise, as a process: `worker_processes(drain_seconds=1)`."""

Lines = Callable[[str], Awaitable[Line]]
"""Lays a line to the worker at an address."""

Opened = Callable[..., GrpcWorkers]
"""Opens a source at these workers (their addresses); keyword arguments are limits."""


class LocalWorker:
    """A worker in this loop."""

    def __init__(self, source: TokenSource, limits: Limits, address: str) -> None:
        self.server = grpc.aio.server(options=worker_options(limits))
        self.service = InferenceService(source, limits)
        add_InferenceServicer_to_server(self.service, self.server)
        port = self.server.add_insecure_port(address)
        self.address = f"{address.partition(':')[0]}:{port}"

    async def stop(self) -> None:
        """Leave at once."""
        await self.server.stop(0)


Serving = Callable[..., Awaitable[LocalWorker]]
"""Starts a worker in this loop: `await serving(source)`, at an `address` where that matters;
other keywords are limits.
"""


@pytest.fixture
async def serving() -> AsyncIterator[Serving]:
    """Start workers, and end them."""
    started: list[LocalWorker] = []

    async def serve(
        source: TokenSource, address: str = "127.0.0.1:0", **limits: float
    ) -> LocalWorker:
        worker = LocalWorker(source, Limits.model_validate(limits), address)
        started.append(worker)
        await worker.server.start()
        return worker

    yield serve
    for worker in started:
        await worker.stop()


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens sources, and closes them."""
    sources: list[GrpcWorkers] = []

    def open_source(addresses: Sequence[str], **limits: float) -> GrpcWorkers:
        sources.append(GrpcWorkers(addresses, Limits.model_validate(limits)))
        return sources[-1]

    yield open_source
    for source in sources:
        await source.close()


def _variables(settings: dict[str, object]) -> dict[str, str]:
    return {f"EVENFLOW_{name.upper()}": str(value) for name, value in settings.items()}


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    """Start workers with the demo model, and end them."""
    started: list[WorkerInLoop] = []

    async def start(**settings: object) -> WorkerInLoop:
        worker = WorkerInLoop(_variables(settings))
        started.append(worker)
        await worker.start()
        return worker

    yield start
    for worker in started:
        await worker.stop()


@pytest.fixture
def worker_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcesses]:
    """Start worker processes for one test."""
    started: list[WorkerProcess] = []

    def start(**settings: object) -> WorkerProcess:
        worker = WorkerProcess(
            tmp_path_factory.mktemp("worker") / "worker.log", _variables(settings)
        )
        started.append(worker)
        return worker.wait_until_serving()

    yield start
    failures = []
    for worker in started:
        try:
            worker.stop()
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, "\n".join(failures)


@pytest.fixture
async def lines() -> AsyncIterator[Lines]:
    """Lay lines, and cut them at the end."""
    laid: list[Line] = []

    async def lay(to: str) -> Line:
        line = Line(to)
        laid.append(line)
        await line.start()
        return line

    yield lay
    for line in laid:
        line.cut()
