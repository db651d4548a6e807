from __future__ import annotations

import os
from pathlib import Path

import pytest

from fargate_handler.memory import memory_bytes, usable_cores, warn_of_too_little_memory
from stream_core.policy.limits import Limits
from stream_core.policy.memory_bound import MEBIBYTE, limits_bound


def test_a_control_group_may_have_less_than_the_machine(tmp_path: Path) -> None:
    machine = memory_bytes(tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_bytes(tmp_path) == machine > 64 * MEBIBYTE
    (tmp_path / "memory.max").write_text(f"{64 * MEBIBYTE}\n")
    assert memory_bytes(tmp_path) == 64 * MEBIBYTE


def test_the_first_version_of_control_groups(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(f"{32 * MEBIBYTE}\n")
    assert memory_bytes(tmp_path) == 32 * MEBIBYTE


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 8), ("150000 100000", 2), ("1600000 100000", 8), ("", 8)]
)
def test_a_control_group_may_use_fewer_cores_than_the_machine_has(
    quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    if quota:
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert usable_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", 8), ("250000", 3)])
def test_cores_of_a_control_group_of_the_first_version(
    quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path) == cores


def test_limits_that_need_more_than_there_is_are_warned_of_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = Limits(connections_per_node=1_000, requests_per_node=100)
    warn_of_too_little_memory(limits, limits_bound(limits))
    assert not caplog.records
    warn_of_too_little_memory(limits, limits_bound(limits) - 1)
    (record,) = caplog.records
    assert "EVENFLOW_CONNECTIONS_PER_NODE" in record.getMessage()
