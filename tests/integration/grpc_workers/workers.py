"""Workers with the demo model, as `--role worker` starts them: in the test's loop, or a process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from unittest.mock import patch

import grpc

from fargate_handler.inference.llm_v1 import inference_pb2 as wire
from fargate_handler.inference.llm_v1.inference_pb2_grpc import InferenceStub
from fargate_handler.inference.worker import Worker
from fargate_handler.settings import load_settings
from tests.integration.server_process import ROOT, clean_environment, free_port, server_command

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


class WorkerProcess(DemoWorker):
    """`python -m fargate_handler --role worker` with these variables.

    Args:
        log: the file that takes what it prints.
    """

    def __init__(self, log: Path, variables: Mapping[str, str]) -> None:
        super().__init__(variables)
        self._log = log
        self._exit_status = 0
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*server_command(), "--role", "worker"],
                cwd=ROOT,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_until_serving(self) -> Self:
        """Return when its log says that it serves."""
        give_up_at = time.monotonic() + _START_SECONDS
        while "serving grpc" not in self.log:
            assert self.process.poll() is None, f"the worker ended at its start:\n{self.log}"
            assert time.monotonic() < give_up_at, f"the worker did not start:\n{self.log}"
            time.sleep(0.02)
        return self

    @property
    def log(self) -> str:
        """What it has printed."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """End it as a lost machine ends."""
        self._exit_status = -signal.SIGKILL
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it. An exit status but 0, but for one that was killed, and any traceback are
        failures of the test.
        """
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"the worker did not end after SIGTERM:\n{self.log}") from None
        assert self.process.returncode == self._exit_status, (
            f"exit status {self.process.returncode}:\n{self.log}"
        )
        assert "Traceback" not in self.log, f"the worker's log has a traceback:\n{self.log}"
