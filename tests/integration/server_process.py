"""A running handler as tests see it, and the one that is a process of its own."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import psutil

from tests.aws_calls import RECORDING

ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 40.0
_STOP_SECONDS = 20.0
# Below those that the system gives to outgoing connections, of which a test makes many before a
# server that it starts listens; processes of tests side by side have a part of them each.
_PORTS_OF_A_RUN = 200
_FIRST_PORT = 10_000 + _PORTS_OF_A_RUN * (os.getpid() % 110)
# What is waited for comes in milliseconds; a busy machine may need seconds.
STATE_SECONDS = 20.0
# Running answers need not be waited for when a test is over, and tests share no file.
DEFAULTS = {"EVENFLOW_DRAIN_SECONDS": "0", "EVENFLOW_STORE": "memory"}


_ports = itertools.cycle(range(_FIRST_PORT, _FIRST_PORT + _PORTS_OF_A_RUN))


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on, and that were not given out lately."""
    free: list[int] = []
    with ExitStack() as probes:
        for port in itertools.islice(_ports, _PORTS_OF_A_RUN):
            probe = probes.enter_context(socket.socket())
            # As servers have it: connections that have just ended here are no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                free.append(port)
            if len(free) == count:
                return free
    raise AssertionError(f"{count} of {_PORTS_OF_A_RUN} ports from {_FIRST_PORT} on are not free")


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]


def clean_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """This process' environment without any setting of Evenflow but `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVENFLOW_")}
    return kept | {"PYTHONUNBUFFERED": "1"} | dict(variables)


def server_command() -> list[str]:
    """What starts the server."""
    return [sys.executable, "-m", "evenflow.fargate_handler"]


def _recorded(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The same command. Where it calls an emulated AWS, its calls are recorded."""
    if RECORDING not in environment or not any(
        name.startswith("AWS_ENDPOINT_URL") for name in environment
    ):
        return [*command]
    python, as_module, *rest = command
    return [python, as_module, "tests.aws_calls", *rest]


class Server(ABC):
    """A running handler, wherever it runs.

    Args:
        port: a free one is chosen where it is not said.
    """

    look_seconds = 0.05
    """Between two looks at what it measures. Each look costs a process ten milliseconds."""

    def __init__(self, port: int | None = None) -> None:
        self.port = free_port() if port is None else port
        self.http_url = f"http://127.0.0.1:{self.port}"
        self.ws_url = f"ws://127.0.0.1:{self.port}/ws"

    @property
    def own_port(self) -> dict[str, str]:
        """The variable that says its port."""
        return {"EVENFLOW_HTTP_PORT": str(self.port)}

    @property
    @abstractmethod
    def log(self) -> str:
        """What it has logged."""

    @abstractmethod
    async def metrics_page(self) -> str:
        """What it measures, as Prometheus reads it."""

    async def until_logged(self, text: str, seconds: float = STATE_SECONDS) -> None:
        """Wait until its log has this text."""
        give_up_at = time.monotonic() + seconds
        while text not in self.log:
            assert time.monotonic() < give_up_at, (
                f"not logged within {seconds} s: {text}\n{self.log}"
            )
            await asyncio.sleep(0.01)

    async def metrics(self) -> dict[str, float]:
        """Each sample by its name (buckets with their label)."""
        lines = (await self.metrics_page()).splitlines()
        samples = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    async def metric(self, name: str) -> float:
        """One sample; `name` without `evenflow_`."""
        return (await self.metrics())[f"evenflow_{name}"]

    async def until_metric(
        self, name: str, wanted: float, seconds: float = STATE_SECONDS, *, at_least: bool = False
    ) -> float:
        """Wait until a sample has this value (or `at_least` this); returns the seconds that it
        took.
        """
        began = time.monotonic()
        while True:
            value = await self.metric(name)
            passed = time.monotonic() - began
            if value == wanted or (at_least and value > wanted):
                return passed
            assert passed < seconds, f"{name} is {value}, not {wanted}, after {seconds} s"
            await asyncio.sleep(self.look_seconds)


class HandlerProcess:
    """`python -m evenflow.fargate_handler` in one of its roles.

    Args:
        log: the file that takes what it prints.
        arguments: those behind the command.
        environment: the whole of it.
        serving: what its log says when it serves.
        command: what starts it; None: this checkout.
        folder: where it is started.
    """

    def __init__(
        self,
        log: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        serving: str,
        command: Sequence[str] | None = None,
        folder: Path = ROOT,
    ) -> None:
        self._log = log
        self._serving = serving
        self._exit_status = 0
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*(command or _recorded(server_command(), environment)), *arguments],
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> str:
        """What it has printed."""
        return self._log.read_text(errors="replace")

    def wait_until_serving(self) -> Self:
        """Return when its log says that it serves."""
        give_up_at = time.monotonic() + _START_SECONDS
        while self._serving not in self.log:
            assert self.process.poll() is None, f"the process ended at its start:\n{self.log}"
            assert time.monotonic() < give_up_at, f"the process did not start:\n{self.log}"
            time.sleep(0.02)
        return self

    def kill(self) -> None:
        """End it as a lost machine ends: at once, without a word."""
        self._exit_status = -signal.SIGKILL
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it. An exit status but 0, but for one that was killed, and any traceback in its log
        are failures of the test that used it.
        """
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"it did not end after SIGTERM:\n{self.log}") from None
        assert self.process.returncode == self._exit_status, (
            f"exit status {self.process.returncode}:\n{self.log}"
        )
        assert "Traceback" not in self.log, f"its log has a traceback:\n{self.log}"


class ServerProcess(HandlerProcess, Server):
    """`python -m evenflow.fargate_handler` with these variables.

    Args:
        log: the file that takes what it prints.
        variables: `EVENFLOW_…` variables but the port.
        port: that of a process that has ended; a free one is chosen where it is not said.
    """

    def __init__(self, log: Path, variables: Mapping[str, str], port: int | None = None) -> None:
        Server.__init__(self, port)
        environment = clean_environment(DEFAULTS | self.own_port | dict(variables))
        super().__init__(log, (), environment, "serving http")

    @property
    def resident_bytes(self) -> int:
        """Its resident memory."""
        size: int = psutil.Process(self.process.pid).memory_info().rss
        return size

    @property
    def peak_resident_bytes(self) -> int:
        """The most that it has been."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (kibibytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(kibibytes) * 1_024

    def send_signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Signal the process."""
        self.process.send_signal(number)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Stop it, sockets open, as a paused machine is; it goes on behind the block."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    async def ended(self, seconds: float = _STOP_SECONDS) -> int:
        """Its exit status, which it must reach within `seconds`."""
        return await asyncio.to_thread(self.process.wait, seconds)

    async def metrics_page(self) -> str:
        """What it measures, as Prometheus reads it."""
        return await asyncio.to_thread(self._read_metrics)

    def _read_metrics(self) -> str:
        with urllib.request.urlopen(f"{self.http_url}/metrics", timeout=10) as answer:
            page: bytes = answer.read()
            return page.decode()
