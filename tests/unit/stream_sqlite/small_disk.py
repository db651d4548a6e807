"""A disk that is as full as a test says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

MIB = 1_048_576


@dataclass
class SmallDisk:
    """Of 80 MiB. `free_bytes` stay free whatever is written."""

    free_bytes: int

    def statvfs(self, _path: object) -> SimpleNamespace:
        """In the place of `os.statvfs`."""
        blocks = 80 * MIB // 4_096
        return SimpleNamespace(f_bavail=self.free_bytes // 4_096, f_blocks=blocks, f_frsize=4_096)


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> SmallDisk:
    """The disk of all files, for what looks at it."""
    disk = SmallDisk(80 * MIB)
    monkeypatch.setattr(os, "statvfs", disk.statvfs)
    return disk
