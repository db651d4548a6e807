"""Memory: how much there is, and when garbage is collected."""

from __future__ import annotations

import gc
import logging
import os
import resource
from collections.abc import Callable
from pathlib import Path

from stream_core.policy.limits import Limits
from stream_core.policy.memory_bound import MEBIBYTE, limits_bound

_YOUNG_OBJECTS = 20_000  # looked through in about two milliseconds
_NEVER = 1_000_000_000
_QUIET_CONNECTIONS = 200
_EVERY_SECONDS = 60.0
_STATM = Path("/proc/self/statm")
_GROWTH_BYTES = 134_217_728
"""As much as a few thousand connections and their answers. Each such growth costs a busy node one pause at most."""


def resident_bytes() -> int:
    """Memory of this process that is in use; without Linux' `/proc` the most that it was."""
    try:
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class GarbageCollection:
    """Young objects as they come, all objects when the node is quiet, or has grown since the last time.

    Args:
        now: seconds.
        resident: bytes of memory in use.
    """

    def __init__(self, now: float, resident: Callable[[], int] = resident_bytes) -> None:
        self._collected_at = now
        self._resident = resident
        self._resident_then = resident()

    def start(self) -> None:
        """What is loaded stays: it is never looked at again. Older objects are left to `look`."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, _NEVER, _NEVER)
        self._resident_then = self._resident()

    def look(self, now: float, connections: int, busy: bool) -> None:
        """Look through all objects, where few are there to be kept waiting, at most once a minute; or where memory has grown."""
        resident = self._resident()
        # What was given back counts from where it fell to.
        self._resident_then = min(self._resident_then, resident)
        quiet = not busy and connections <= _QUIET_CONNECTIONS and now - self._collected_at >= _EVERY_SECONDS
        if not quiet and resident - self._resident_then < _GROWTH_BYTES:
            return
        self._collected_at = now
        gc.collect()
        self._resident_then = self._resident()


_logger = logging.getLogger("evenflow")

_CGROUP = Path("/sys/fs/cgroup")
# Version 2, and version 1.
_LIMIT_FILES = ("memory.max", "memory/memory.limit_in_bytes")


def memory_bytes(cgroup: Path = _CGROUP) -> int:
    """What the machine has, or less where the process' control group may have less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(int(text) for name in _LIMIT_FILES if (text := _read(cgroup / name)).isdecimal())])


def warn_of_too_little_memory(limits: Limits, memory: int) -> None:
    """Say at the start what would otherwise be said by the kernel, which kills the process."""
    bound = limits_bound(limits)
    if bound > memory:
        _logger.warning(
            "the limits allow readers and answers that need %d MiB, and there are %d MiB: lower EVENFLOW_CONNECTIONS_PER_NODE, "
            "EVENFLOW_REQUESTS_PER_NODE, EVENFLOW_RESPONSES_HELD_BYTES or EVENFLOW_REQUESTS_HELD_BYTES, or give it more memory",
            bound // MEBIBYTE, memory // MEBIBYTE,
        )  # fmt: skip


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except OSError:
        return ""
