"""Processes that share a file: one is killed while it writes, and another goes on."""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from pathlib import Path

import pytest

from evenflow.stream_core.stores.response_store import Lease, LeaseLost
from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.server_process import ROOT
from tests.integration.stores.stores import NOW, Stores, chunk, completed, lease_of
from tests.integration.stores.writing_process import OWNER

LINES = 200


async def test_what_a_killed_process_was_told_is_kept_and_another_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "evenflow.db"
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.stores.writing_process", str(path)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert writer.stdout is not None
    response_id = (await writer.stdout.readline()).decode().strip()
    kept = [int(await writer.stdout.readline()) for _ in range(LINES)][-1]
    with closing(SQLiteStores(path, lambda: NOW)) as opened:
        # A process that lives is a process whose lease counts.
        assert [lease.lost for lease in await opened.responses.leases()] == [False]
        assert await opened.responses.take_over(response_id, "b", NOW) is None
        writer.kill()
        kept = max([kept, *map(int, (await writer.stdout.read()).split(b"\n")[:-1])])
        await writer.wait()
        assert [lease.lost for lease in await opened.responses.leases()] == [True]
        stores = Stores(opened.responses, opened.sessions)
        found = await stores.read(response_id)
        assert len(found) >= kept
        assert found == [f"{index} " for index in range(len(found))]
        taken = await opened.responses.take_over(response_id, "b", NOW)
        assert lease_of(taken) == (lease := Lease(response_id, "b", 2))
        # What the killed one had on its way counts for nothing, had it arrived.
        await stores.write(Lease(response_id, OWNER, 1), len(found), ["late"])
        with pytest.raises(LeaseLost):
            await opened.responses.finish(
                Lease(response_id, OWNER, 1), completed(len(found)), NOW + 300
            )
        assert list(await opened.responses.append([chunk(lease, len(found), ["on"])])) == []
        assert await stores.read(response_id) == [*found, "on"]
