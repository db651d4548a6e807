"""A real worker as a process of its own: started on a free port, asked what it does, ended by its handle."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import grpc

from fargate_handler.inference.llm_v1 import inference_pb2 as wire
from fargate_handler.inference.llm_v1.inference_pb2_grpc import InferenceStub
from tests.integration.server_process import ROOT, clean_environment, free_port, server_command

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0


class WorkerProcess:
    """`python -m fargate_handler --role worker` with these variables.

    Args:
        log: the file that takes what it prints.
    """

    def __init__(self, log: Path, variables: Mapping[str, str]) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._log = log
        self._exit_status = 0
        ours = {"EVENFLOW_WORKER_PORT": str(self.port), "EVENFLOW_DRAIN_SECONDS": "0"}
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*server_command(), "--role", "worker"],
                cwd=ROOT,
                env=clean_environment(ours | dict(variables)),
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
        self.process.send_signal(signal.SIGCONT)  # a suspended one does not even die
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it. An exit status but 0, but for one that was killed, and any traceback are failures of the test."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"the worker did not end after SIGTERM:\n{self.log}") from None
        assert self.process.returncode == self._exit_status, f"exit status {self.process.returncode}:\n{self.log}"
        assert "Traceback" not in self.log, f"the worker's log has a traceback:\n{self.log}"

    async def describe(self) -> wire.DescribeResponse:
        """What it says of itself."""
        async with grpc.aio.insecure_channel(self.address, [("grpc.enable_http_proxy", 0)]) as channel:
            said: wire.DescribeResponse = await InferenceStub(channel).Describe(wire.DescribeRequest(), timeout=5)
            return said

    async def until_streams(self, wanted: int, seconds: float = 20.0) -> float:
        """Wait until it generates so many answers; returns the moment, on the monotonic clock."""
        give_up_at = time.monotonic() + seconds
        async with grpc.aio.insecure_channel(self.address, [("grpc.enable_http_proxy", 0)]) as channel:
            stub = InferenceStub(channel)
            while (said := await stub.Describe(wire.DescribeRequest(), timeout=5)).streams != wanted:
                assert time.monotonic() < give_up_at, f"{said.streams} streams, not {wanted}"
                await asyncio.sleep(0.005)
        return time.monotonic()
