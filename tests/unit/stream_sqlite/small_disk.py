"""A disk that is as full as a test says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

MIB = 1_048_576


@dataclass
class SmallDisk:
    """Of 80 MiB. `free_bytes` stay free whatever is written, but to this file and those beside
    it.
    """

    free_bytes: int
    file: Path | None = None

    def statvfs(self, _path: object) -> SimpleNamespace:
        """In the place of `os.statvfs`."""
        beside = self.file.parent.glob(f"{self.file.name}*") if self.file is not None else ()
        free = max(0, self.free_bytes - sum(each.stat().st_size for each in beside))
        return SimpleNamespace(f_bavail=free // 4_096, f_blocks=80 * MIB // 4_096, f_frsize=4_096)


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> SmallDisk:
    """The disk of all files, for what looks at it."""
    disk = SmallDisk(80 * MIB)
    monkeypatch.setattr(os, "statvfs", disk.statvfs)
    return disk
