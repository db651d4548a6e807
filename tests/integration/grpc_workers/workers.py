"""Workers with the demo model, as `--role worker` starts them: in the test's loop, or a process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import grpc

from evenflow.fargate_handler.inference.llm_v1 import inference_pb2 as wire
from evenflow.fargate_handler.inference.llm_v1.inference_pb2_grpc import InferenceStub
from evenflow.fargate_handler.settings.handler_settings import load_settings
from evenflow.fargate_handler.worker import Worker
from tests.integration.server_process import HandlerProcess, clean_environment, free_port

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0


class DemoWorker:
    """A worker that tells what it does. Its port is a free one where `variables` name none."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        defaults = {"EVENFLOW_WORKER_PORT": str(free_port()), "EVENFLOW_DRAIN_SECONDS": "0"}
        self.environment = clean_environment(defaults | dict(variables))
        self.port = int(self.environment["EVENFLOW_WORKER_PORT"])
        self.address = f"127.0.0.1:{self.port}"

    async def describe(self) -> wire.DescribeResponse:
        """What it says of itself."""
        async with grpc.aio.insecure_channel(
            self.address, [("grpc.enable_http_proxy", 0)]
        ) as channel:
            said: wire.DescribeResponse = await InferenceStub(channel).Describe(
                wire.DescribeRequest(), timeout=5
            )
            return said

    async def until_streams(self, wanted: int, seconds: float = 20.0) -> float:
        """Wait until it generates so many answers; returns the moment, on the monotonic clock."""
        give_up_at = time.monotonic() + seconds
        async with grpc.aio.insecure_channel(
            self.address, [("grpc.enable_http_proxy", 0)]
        ) as channel:
            stub = InferenceStub(channel)
            while (
                said := await stub.Describe(wire.DescribeRequest(), timeout=5)
            ).streams != wanted:
                assert time.monotonic() < give_up_at, f"{said.streams} streams, not {wanted}"
                await asyncio.sleep(0.005)
        return time.monotonic()


class WorkerInLoop(DemoWorker):
    """`Worker` in this loop. `start` it before anything else.

    Raises:
        ConfigurationError: it can't, by these variables.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__(variables)
        with patch.dict(os.environ, self.environment, clear=True):
            self._worker = Worker(load_settings(), asyncio.get_running_loop())

    async def start(self) -> None:
        """Serve.

        Raises:
            ConfigurationError: its port can't be had.
        """
        await self._worker.start()

    async def leave(self) -> None:
        """What a signal brings about: its answers have their time to finish."""
        await self._worker.drain()

    async def stop(self) -> None:
        """Leave at once."""
        await self._worker.stop()


class WorkerProcess(HandlerProcess, DemoWorker):
    """`python -m evenflow.fargate_handler --role worker` with these variables.

    Args:
        log: the file that takes what it prints.
    """

    def __init__(self, log: Path, variables: Mapping[str, str]) -> None:
        DemoWorker.__init__(self, variables)
        super().__init__(log, ("--role", "worker"), self.environment, "serving grpc")
