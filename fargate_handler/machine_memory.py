"""The memory that this process may have, against what its limits allow it to need."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from stream_core.limits import Limits
from stream_core.memory_bound import MEBIBYTE, limits_bound

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
