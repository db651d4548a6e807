"""Child processes under measurement: started on a core of their own, metered, and killed by
their pid.
"""

import asyncio
import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import astuple, dataclass
from functools import partial
from time import monotonic

import psutil

from bench.machine import (
    COMPILED,
    LOAD_CORE,
    SERVER_CORE,
    busy_seconds,
    pin,
    unpin,
    why_interpreted,
)

START_SECONDS = 90.0  # LiteLLM imports for 15, and for a minute on a busy machine
END_SECONDS = 5.0
DISTURBED_PERCENT = 5.0  # of a core: what others took is shown from here on
MUCH_DISTURBED_PERCENT = 10.0  # and from here on, figures are not to be relied on
PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Usage:
    """What a stretch of time cost, in seconds: by the clock, of CPU, and of CPU that others took
    on the same two cores.
    """

    seconds: float
    server: float
    client: float  # this load process
    server_core: (
        float  # everything that ran on the server's core, and what the hypervisor took from it
    )
    load_core: float

    def __sub__(self, earlier: "Usage") -> "Usage":
        return Usage(
            *(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True))
        )

    @property
    def server_percent(self) -> float:
        return 100 * self.server / self.seconds

    @property
    def client_percent(self) -> float:
        return 100 * self.client / self.seconds

    @property
    def server_others_percent(self) -> float:
        return max(0.0, 100 * (self.server_core - self.server) / self.seconds)

    @property
    def client_others_percent(self) -> float:
        return max(0.0, 100 * (self.load_core - self.client) / self.seconds)

    def __str__(self) -> str:
        return (
            f"CPU server {self.server_percent:.0f} %{_disturbance(self.server_others_percent)}, "
            f"client {self.client_percent:.0f} %{_disturbance(self.client_others_percent)}"
        )

    def as_figures(self) -> dict[str, float]:
        return {
            "server_cpu_percent": round(self.server_percent, 1),
            "client_cpu_percent": round(self.client_percent, 1),
            "others_on_server_core_percent": round(self.server_others_percent, 1),
            "others_on_load_core_percent": round(self.client_others_percent, 1),
        }


def _disturbance(percent: float) -> str:
    return f" (+{percent:.0f} % others)" if percent >= DISTURBED_PERCENT else ""


class Child:
    """A running server process, with those that it has started itself, and its meters."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._family = [psutil.Process(process.pid)]
        self._client = psutil.Process()

    def begin(self) -> None:
        """Count what it has started by now as part of it."""
        self._family[1:] = self._family[0].children(recursive=True)

    async def end(self, by: signal.Signals) -> None:
        """Returns when it has ended; what doesn't within some seconds is killed."""
        if not self.exited:
            self._process.send_signal(by)
        try:
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
        except TimeoutError:
            for process in self._family:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            await self._process.wait()

    @property
    def exited(self) -> bool:
        return self._process.returncode is not None

    def usage(self) -> Usage:
        """Readings so far; the difference of two of them is what lies between."""
        return Usage(
            monotonic(),
            sum(_cpu_seconds(process) for process in self._living()),
            _cpu_seconds(self._client),
            busy_seconds(SERVER_CORE),
            busy_seconds(LOAD_CORE),
        )

    @property
    def handlers(self) -> list[psutil.Process]:
        """The processes that a server of several has started."""
        return self._family[1:]

    def memory_bytes(self) -> int:
        """VmRSS of the server's processes; the kernel's socket buffers are not in it."""
        return sum(int(process.memory_info().rss) for process in self._living())

    def _living(self) -> list[psutil.Process]:
        """The first must live; one that it had started for a moment may be gone."""
        first, *others = self._family
        return [first, *(process for process in others if process.is_running())]


@asynccontextmanager
async def child(
    module: Sequence[str],
    *,
    ports: Sequence[int],
    environment: dict[str, str] | None = None,
    core: int | None = SERVER_CORE,
) -> AsyncIterator[Child]:
    """Run `python -m module…` until the block ends; yields once it listens on all of `ports` of
    the loopback. With no core of its own it has them all.
    """
    of_evenflow = module[0].split(".")[0] == "evenflow"
    if of_evenflow and why_interpreted() is None:
        # -P: the checkout, which is interpreted, is the working directory.
        command = [sys.executable, "-P", "-m", *module]
        environment = {"PYTHONPATH": str(COMPILED), **(environment or {})}
    else:
        command = [sys.executable, "-m", *module]
    async with program(command, ports=ports, environment=environment, core=core) as running:
        yield running


@asynccontextmanager
async def program(
    command: Sequence[str],
    *,
    ports: Sequence[int],
    environment: dict[str, str] | None = None,
    core: int | None = SERVER_CORE,
    end_with: signal.Signals = signal.SIGKILL,
) -> AsyncIterator[Child]:
    """Likewise any command. `end_with` is for one that has to end what it has started itself."""
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=_inherited() | (environment or {}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=partial(_prepare_child, core, end_with),
        )
        running = Child(process)
        try:
            if not await _listening(running, ports):
                log.seek(0)
                raise RuntimeError(
                    f"{' '.join(command)} did not start:\n"
                    f"{log.read().decode(errors='replace')[-4_000:]}"
                )
            running.begin()
            yield running
        finally:
            await running.end(end_with)


def end_with_parent(with_signal: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel signal this process when the one that started it ends, in whatever way
    that ends.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, with_signal)


def _inherited() -> dict[str, str]:
    """This process's environment without settings of Evenflow: the measured ones are named by
    the scenario.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("EVENFLOW_")}


def _prepare_child(core: int | None, end_with: signal.Signals) -> None:
    """In the child, before it starts a thread of its own."""
    if core is None:
        unpin()
    else:
        pin(core)
    end_with_parent(end_with)


async def _listening(running: Child, ports: Sequence[int]) -> bool:
    waiting = list(ports)
    deadline = monotonic() + START_SECONDS
    while waiting and monotonic() < deadline and not running.exited:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", waiting[0])
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            waiting.pop(0)
    return not waiting


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
