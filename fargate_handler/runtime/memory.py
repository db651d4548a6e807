"""Memory, cores and files that this process may use, and its garbage collection."""

from __future__ import annotations

import ctypes
import gc
import logging
import math
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_bound import MEBIBYTE, bounds, limits_bound
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock

# Young objects per collection, which takes 2 to 3 ms. Python counts objects that were made, less
# those freed, of any age: while older ones were freed, 29,000 young ones gathered, for 17 ms. So
# young objects are collected by time, too.
_YOUNG_OBJECTS = 4_000
_YOUNG_SECONDS = 0.2
_NEVER = 1_000_000_000
_FEW = 200
_AFTER_A_CROWD = 2
"""How often to collect after many have ended. They free what they held by and by."""
_AGAIN_SECONDS = 20.0
_EVERY_SECONDS = 60.0
_MMAP_THRESHOLD = -3  # of glibc's malloc.h
_LARGE_BUFFER_BYTES = 65_536
_STATM = Path("/proc/self/statm")
_GROWTH_BYTES = 134_217_728
"""As much as a few thousand connections and answers. Such growth costs at most one pause."""


def resident_bytes() -> int:
    """Bytes of memory that this process uses. Without Linux' `/proc`, the most it has used."""
    try:
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def return_freed_memory() -> None:
    """Return what was freed to the system, which glibc otherwise keeps. Elsewhere it does nothing.

    Of 600 MB, half of it freed in small pieces, it took 48 ms, and 20 ms with nothing left to give.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def give_large_buffers_back() -> None:
    """Return each large buffer to the system when it is freed. Without glibc nothing changes.

    By itself glibc keeps them in its heap once a few were freed: five seconds after a crowd of
    large requests was given up, 400 MB were resident instead of 120.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_MMAP_THRESHOLD, _LARGE_BUFFER_BYTES)


class GarbageCollection:
    """Collects young objects often, and all objects when the node is quiet or has grown.

    Args:
        now: seconds.
        resident: returns the bytes of memory in use.
        return_freed: returns to the system what was freed.
    """

    def __init__(
        self,
        now: float,
        resident: Callable[[], int] = resident_bytes,
        return_freed: Callable[[], None] = return_freed_memory,
    ) -> None:
        self._collected_at = now
        self._resident = resident
        self._resident_then = resident()
        self._return_freed = return_freed
        self._due_after_crowd = 0
        self._clock: DeliveryClock | None = None

    def start(self) -> None:
        """Exclude what is loaded already. Collections of older objects are left to `look`.

        From now on large buffers are the system's.
        """
        gc.collect()
        gc.freeze()
        give_large_buffers_back()
        gc.set_threshold(_YOUNG_OBJECTS, _NEVER, _NEVER)
        self._resident_then = self._resident()

    def follow(self, clock: DeliveryClock) -> None:
        """Collect young objects by this clock from now on."""
        self._clock = clock
        clock.put_after(self, _YOUNG_SECONDS)

    def on_due(self, _slot: int) -> None:
        """Collect the young objects."""
        if self._clock is not None:
            self.follow(self._clock)
        gc.collect(0)

    def look(self, now: float, connections: int, answers: int) -> None:
        """Collect all objects if the node is quiet, at most once a minute, if it has grown, or if
        a crowd of connections or answers has gone. Where few are left, freed memory is returned
        to the system, too.

        Args:
            answers: the number of unfinished answers.
        """
        resident = self._resident()
        # After memory was given back, growth counts from the lowest level.
        self._resident_then = min(self._resident_then, resident)
        is_calm = connections + answers <= _FEW
        seconds = now - self._collected_at
        quiet = is_calm and not answers and seconds >= _EVERY_SECONDS
        crowd_left = is_calm and self._due_after_crowd > 0 and seconds >= _AGAIN_SECONDS
        grown = resident - self._resident_then >= _GROWTH_BYTES
        if not is_calm:
            self._due_after_crowd = _AFTER_A_CROWD
        if not (quiet or crowd_left or grown):
            return
        self._collected_at = now
        gc.collect()
        if is_calm:
            self._due_after_crowd = max(0, self._due_after_crowd - 1)
            self._return_freed()
        self._resident_then = self._resident()


_logger = logging.getLogger("evenflow.process")

_UNLIMITED_FILES = 1_000_000


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The control groups of Linux that this process is in.

    Args:
        root: where they are mounted.
        membership: which of them are this process'. In a namespace of its own, as in a container,
            that is the root.
    """

    root: Path = Path("/sys/fs/cgroup")
    membership: Path = Path("/proc/self/cgroup")

    def folders(self, controller: str) -> list[Path]:
        """The folders of the groups of this controller, each inside the one before."""
        # Of version 2, and of version 1, which has a folder for each controller.
        found = [self.root, self.root / controller]
        for line in _read(self.membership).splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            folder = self.root / controller if controllers else self.root
            for name in PurePosixPath(path).parts[1:]:
                folder /= name
                found.append(folder)
        return found


_OWN_GROUPS = ControlGroups()


def memory_bytes(groups: ControlGroups = _OWN_GROUPS) -> int:
    """Bytes of memory of the machine, or fewer if a control group of the process has a limit."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    texts = (
        _read(folder / name)
        for folder in groups.folders("memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    )
    return min([machine, *(int(text) for text in texts if text.isdecimal())])


def usable_cores(groups: ControlGroups = _OWN_GROUPS) -> int:
    """Processor cores that this process may use: the machine's, or its control groups' if fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    usable = cores or 1
    for folder in groups.folders("cpu"):
        # Without a limit the first number is `max`, or -1.
        quota, _, period = (
            _read(folder / "cpu.max")
            or f"{_read(folder / 'cpu.cfs_quota_us')} {_read(folder / 'cpu.cfs_period_us')}"
        ).partition(" ")
        if quota.isdecimal() and period.isdecimal():
            usable = min(usable, math.ceil(int(quota) / int(period)))
    return usable


def open_files() -> int:
    """How many files and sockets this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED_FILES if soft == resource.RLIM_INFINITY else soft


def warn_of_too_little_memory(limits: Limits, memory: int, processes: int = 1) -> None:
    """Warn at the start if the limits need more memory: the kernel would kill a process.

    The warning has what each setting allows, the largest first.
    """
    bound = limits_bound(limits) * processes
    if bound <= memory:
        return
    settings = {name: size for name, size in bounds(limits).items() if name}
    each = ", ".join(
        f"EVENFLOW_{name.upper()} ({settings[name] * processes // MEBIBYTE} MiB)"
        for name in sorted(settings, key=settings.__getitem__, reverse=True)
    )
    _logger.warning(
        "what the limits allow needs %d MiB, and there are %d MiB: give it more memory, or lower "
        "%s%s",
        bound // MEBIBYTE, memory // MEBIBYTE, "EVENFLOW_PROCESSES, " if processes > 1 else "",
        each,
    )  # fmt: skip


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except OSError:
        return ""
