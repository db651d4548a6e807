from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from docs.generate import limits_page
from evenflow.fargate_handler.runtime.memory import (
    ControlGroups,
    memory_bytes,
    usable_cores,
    warn_of_too_little_memory,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_bound import MEBIBYTE, bounds, limits_bound


def control_groups(root: Path, membership: str = "0::/\n") -> ControlGroups:
    """Those under `root`; the process is in the root of its namespace, as in a container."""
    (root / "self").write_text(membership)
    return ControlGroups(root, root / "self")


def test_a_control_group_may_have_less_than_the_machine(tmp_path: Path) -> None:
    groups = control_groups(tmp_path)
    machine = memory_bytes(groups)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_bytes(groups) == machine > 64 * MEBIBYTE
    (tmp_path / "memory.max").write_text(f"{64 * MEBIBYTE}\n")
    assert memory_bytes(groups) == 64 * MEBIBYTE


def test_the_least_of_a_process_own_groups_counts(tmp_path: Path) -> None:
    """A service of systemd, with a limit of its own and one of its slice."""
    groups = control_groups(tmp_path, "0::/system.slice/evenflow.service\n")
    service = tmp_path / "system.slice" / "evenflow.service"
    service.mkdir(parents=True)
    (service / "memory.max").write_text(f"{64 * MEBIBYTE}\n")
    (tmp_path / "other.slice").mkdir()
    (tmp_path / "other.slice" / "memory.max").write_text(f"{MEBIBYTE}\n")
    assert memory_bytes(groups) == 64 * MEBIBYTE
    (tmp_path / "system.slice" / "memory.max").write_text(f"{48 * MEBIBYTE}\n")
    assert memory_bytes(groups) == 48 * MEBIBYTE


@pytest.mark.parametrize("membership", ["", "9:memory:/\n", "9:memory:/docker/4d5e\n"])
def test_the_first_version_of_control_groups(membership: str, tmp_path: Path) -> None:
    groups = control_groups(tmp_path, membership)
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(f"{32 * MEBIBYTE}\n")
    assert memory_bytes(groups) == 32 * MEBIBYTE


def test_a_process_own_group_of_the_first_version(tmp_path: Path) -> None:
    groups = control_groups(tmp_path, "9:memory:/docker/4d5e\n8:cpu,cpuacct:/\n")
    (tmp_path / "memory" / "docker" / "4d5e").mkdir(parents=True)
    limit = tmp_path / "memory" / "docker" / "4d5e" / "memory.limit_in_bytes"
    limit.write_text(f"{16 * MEBIBYTE}\n")
    assert memory_bytes(groups) == 16 * MEBIBYTE


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 8), ("150000 100000", 2), ("1600000 100000", 8), ("", 8)]
)
def test_a_control_group_may_use_fewer_cores_than_the_machine_has(
    quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    if quota:
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert usable_cores(control_groups(tmp_path)) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", 8), ("250000", 3)])
def test_cores_of_a_control_group_of_the_first_version(
    quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(control_groups(tmp_path)) == cores


def test_limits_that_need_more_than_there_is_are_warned_of_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = Limits(connections_per_node=1_000, requests_per_node=100)
    warn_of_too_little_memory(limits, limits_bound(limits))
    assert not caplog.records
    warn_of_too_little_memory(limits, limits_bound(limits) - 1)
    (record,) = caplog.records
    told = record.getMessage()
    need = limits_bound(limits) // MEBIBYTE
    assert f"needs {need} MiB" in told
    assert "EVENFLOW_CONNECTIONS_PER_NODE (26 MiB)" in told
    assert "EVENFLOW_RESPONSES_HELD_BYTES (128 MiB)" in told
    assert "EVENFLOW_PROCESSES" not in told


def test_each_process_needs_as_much(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_too_little_memory(Limits(), limits_bound(Limits()) * 4 - 1, 4)
    (record,) = caplog.records
    assert "lower EVENFLOW_PROCESSES, EVENFLOW_REQUESTS_PER_NODE (2531 MiB)" in record.getMessage()


def test_the_defaults_fit_into_a_task() -> None:
    assert limits_bound(Limits()) <= 2_048 * MEBIBYTE


def test_the_table_of_the_limits_is_what_the_code_bounds() -> None:
    rows = re.findall(r"^\| `EVENFLOW_(\w+)` \| ([\d,]+) MiB \|", limits_page(), re.MULTILINE)
    told = {name.lower(): int(size.replace(",", "")) for name, size in rows}
    assert told == {name: round(size / MEBIBYTE) for name, size in bounds(Limits()).items() if name}
    assert set(told) <= set(Limits.model_fields)
    every = {name for name in Limits.model_fields if name.endswith("_held_bytes")}
    assert every <= set(told), "what is kept and has a limit is in the sum"
    total = round(sum(bounds(Limits()).values()) / MEBIBYTE)
    assert f"| **sum** | **{total:,} MiB** |" in limits_page()
