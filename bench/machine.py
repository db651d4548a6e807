"""The machine under the measurements: which core does what, how many connections its limits leave
room for, and whether the server on it is compiled.
"""

import fcntl
import os
import platform
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TextIO

import psutil

SERVER_CORE = 0
LOAD_CORE = 1
# Of the server: for the store, models and files, and connections beyond those that are served.
RESERVED_DESCRIPTORS = 1_200
RESERVED_PORTS = 500  # what the other programs of this machine may be using


@dataclass(frozen=True)
class Capacity:
    """How many connections one process may hold here, and which limit says so."""

    connections: int
    limit: str


def cores() -> int:
    return os.cpu_count() or 1


def pin(core: int, pid: int = 0) -> None:
    """Keep a process (0: this one) on one core; a machine with a single core leaves it where it
    is.
    """
    if core < cores():
        os.sched_setaffinity(pid, {core})


def unpin() -> None:
    """Let this process run on every core."""
    os.sched_setaffinity(0, range(cores()))


def busy_seconds(core: int) -> float:
    """CPU seconds since boot in which a core was not idle, whoever used it (also another guest
    of the hypervisor).
    """
    times = psutil.cpu_times(percpu=True)[min(core, cores() - 1)]
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


@contextmanager
def alone(say: Callable[[str], None]) -> Iterator[None]:
    """Have the machine to this run: another one that measures here is waited for, since both
    would measure each other.
    """
    with (Path(tempfile.gettempdir()) / "evenflow-bench.lock").open("w") as lock:
        waiting = False
        while not _locked(lock):
            if not waiting:
                say("another measurement is running on this machine; waiting for its end")
            waiting = True
            time.sleep(1)
        yield


def _locked(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def raise_descriptor_limit() -> int:
    """Lift the soft limit on open files to the hard one; children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def capacity() -> Capacity:
    """Connections that one client process can hold to one port of one address: descriptors or
    ephemeral ports.
    """
    descriptors = Capacity(
        raise_descriptor_limit() - RESERVED_DESCRIPTORS, "open files (ulimit -Hn)"
    )
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = Capacity(
        last - first - RESERVED_PORTS, "ephemeral ports (sysctl net.ipv4.ip_local_port_range)"
    )
    return min(descriptors, ports, key=lambda it: it.connections)


COMPILED = Path(__file__).resolve().parents[1] / ".build" / "compiled"
"""The package with its hot modules compiled: `make compiled` builds it."""


@cache
def why_interpreted() -> str | None:
    """Why the measured server runs interpreted. None: its hot modules are compiled."""
    if os.environ.get("EVENFLOW_COMPILED") == "0":
        return "EVENFLOW_COMPILED=0"
    # Without the marker a build is under way, or was broken off.
    marker = COMPILED / ".built"
    if not marker.exists() or not any(COMPILED.glob("evenflow__mypyc*")):
        return "nothing was compiled: `make compiled` needs a C compiler"
    built = marker.stat().st_mtime
    newer = any(
        file.stat().st_mtime > built
        for folder in (COMPILED.parents[1] / "evenflow").iterdir()
        for file in folder.resolve().rglob("*.py")
    )
    return "sources changed since they were compiled: `make compiled`" if newer else None


def description() -> str:
    """One line for the report: processor, cores, kernel, Python, whether the server is compiled,
    and the load of others when the run began.
    """
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.split(":", 1)[1].strip() for line in lines if "model name" in line),
        platform.machine(),
    )
    return (
        f"{model}, {cores()} cores, Linux {platform.release()}, Python "
        f"{platform.python_version()}, {_form()}, load average at start {os.getloadavg()[0]:.2f}"
    )


def _form() -> str:
    reason = why_interpreted()
    return "compiled" if reason is None else f"interpreted ({reason})"
