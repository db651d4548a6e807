"""`evenflow tenants usage` and `usage-file`: what an operator is told of a server's store."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import closing
from pathlib import Path

import pytest

from evenflow.__main__ import main
from evenflow.stream_core.tenants.tenant import QuotaLimits, Tenant
from evenflow.stream_core.tenants.usage import UsageRecord
from evenflow.stream_sqlite.stores import SQLiteStores


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Today, with one answer of the tenant `acme` in a file that the variables name."""
    path = tmp_path / "evenflow.db"
    monkeypatch.setenv("EVENFLOW_STORE_PATH", str(path))
    record = UsageRecord(
        tenant="acme",
        response_id="rsp_1",
        agent="demo",
        user="ann",
        key="k1",
        model="m",
        state="completed",
        ended_at=time.time(),
        input_tokens=1_200,
        output_tokens=34,
        nanodollars=5_000_000,
    )

    async def fill() -> None:
        with closing(SQLiteStores(path, time.time)) as stores:
            limits = QuotaLimits(tokens_per_day=2_000)
            await stores.tenants.put(Tenant(id="acme", limits=limits), 0)
            await stores.usage.settle(record, [f"tokens/{record.day}/tenant"])

    asyncio.run(fill())
    return record.day


def test_a_tenants_usage_is_a_table_and_what_is_left(
    day: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tenants", "usage", "acme"]) == 0
    heading, used, budget = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["day", "model", "answers", "input"]
    assert used.split() == [day, "m", "1", "1,200", "34", "0", "0", "0.0050"]
    assert budget == f"budget of the tenant for {day}: 1,234 of 2,000 tokens, 766 left"


def test_a_days_file_has_a_line_for_each_record(
    day: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tenants", "usage-file", day]) == 0
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["response_id"], line["user"], line["cost_usd"]) == ("rsp_1", "ann", 0.005)
    with pytest.raises(SystemExit) as ended:
        main(["tenants", "usage-file", "2020-02-30"])
    assert ended.value.code == 2
    assert "must be a day such as" in capsys.readouterr().err
