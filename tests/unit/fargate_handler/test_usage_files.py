"""The file of each day's usage: made of the records, whole, and the same whoever makes it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.usage_files import UsageFiles
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.tenants.memory_usage import MemoryUsageStore
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.usage import UsageRecord
from tests.unit.hand_turned_clock import HandTurnedClock

MIDNIGHT = 1_795_478_400.0  # 2026-11-24T00:00:00Z


class Node:
    """A task that writes files to a folder, at a wall time in the test's hand."""

    def __init__(self, store: MemoryUsageStore, folder: Path) -> None:
        self.clock, self.wall_time = HandTurnedClock(), MIDNIGHT - 60
        context = NodeContext(
            Limits(),
            self.clock.delivery,
            Metrics(),
            self.clock.monotonic,
            lambda: self.wall_time,
            tenants=Tenants({"zeta": "zeta-key-0123456789"}, [Tenant(id="acme")]),
        )
        self.files = UsageFiles(context, store, folder)

    async def look(self, wall_time: float) -> None:
        """It is so late, and it has seen that."""
        self.wall_time = wall_time
        self.files.on_due(0)
        for task in tuple(self.files._background._tasks):
            await task


async def store_of(tenants: tuple[str, ...]) -> MemoryUsageStore:
    """Records of some tenants, at the last minute of the day."""
    store = MemoryUsageStore()
    for number, tenant in enumerate(tenants):
        record = UsageRecord(
            tenant=tenant,
            response_id=f"rsp_{number}",
            agent="demo",
            user="",
            key="",
            model="m",
            state="completed",
            ended_at=MIDNIGHT - 30 + number,
        )
        await store.settle(record)
    return store


async def test_a_day_is_written_a_quarter_of_an_hour_after_its_end_and_again_with_the_same_bytes(
    tmp_path: Path,
) -> None:
    store = await store_of(("acme", "zeta", "acme", "nobody"))
    folder = tmp_path / "usage"
    one, other = Node(store, folder), Node(store, folder)
    await one.look(MIDNIGHT + 899)
    assert not folder.exists()
    await asyncio.gather(one.look(MIDNIGHT + 900), other.look(MIDNIGHT + 900))
    (file,) = folder.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("2026-11-23.jsonl", 0o600)
    content = file.read_bytes()
    found = [
        (line["tenant"], line["response_id"]) for line in map(json.loads, content.splitlines())
    ]
    assert found == [("acme", "rsp_0"), ("acme", "rsp_2"), ("zeta", "rsp_1")]
    file.unlink()
    await one.look(MIDNIGHT + 930)
    assert not file.exists()  # it was written: who takes it away has it
    await Node(store, folder).look(MIDNIGHT + 960)
    assert file.read_bytes() == content


async def test_a_file_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    store = await store_of(("acme",))
    (folder := tmp_path / "usage").write_text("in the way")
    node = Node(store, folder)
    await node.look(MIDNIGHT + 900)
    folder.unlink()
    await node.look(MIDNIGHT + 930)
    assert [file.name for file in folder.iterdir()] == ["2026-11-23.jsonl"]
