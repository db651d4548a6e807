"""Usage records, a day's file of them, and their totals."""

from __future__ import annotations

import json
import random
from datetime import date
from typing import Any

import pytest

from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.protocols.evenflow.usage_report import days_asked, usage_report
from evenflow.stream_core.tenants.budget import Cost
from evenflow.stream_core.tenants.memory_usage import MemoryUsageStore
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.usage import DayTotals, UsageRecord, file_of, summed, totals_of

NOW = 1_795_478_400.0  # 2026-11-24T00:00:00Z


def used(response_id: str = "rsp_1", **fields: Any) -> UsageRecord:
    given: dict[str, Any] = {
        "tenant": "acme",
        "response_id": response_id,
        "agent": "demo",
        "user": "ann",
        "key": "k1",
        "model": "m",
        "state": "completed",
        "ended_at": NOW,
        "input_tokens": 3,
        "output_tokens": 4,
        "nanodollars": 1_500,
        **fields,
    }
    return UsageRecord(**given)


def test_a_record_is_read_as_it_was_written_and_unknown_fields_are_left_out() -> None:
    text = used(error="model_timeout").to_text()
    later = json.dumps({**json.loads(text), "of_a_later_version": 1})
    assert UsageRecord.from_text(later) == used(error="model_timeout")


def test_it_is_of_the_day_of_its_end_in_utc_and_stays_so_when_a_successor_ends_it_again() -> None:
    before = used(ended_at=NOW - 0.001)
    assert (before.day, used().day) == ("2026-11-23", "2026-11-24")
    assert used(epoch=2).replacing(before).day == "2026-11-23"
    assert used().cost == Cost(7, 1_500)


def test_the_same_records_make_the_same_file_in_whatever_order_they_are_read() -> None:
    records = [used(f"rsp_{number}", ended_at=NOW + number % 3) for number in range(20)]
    shuffled = random.Random(1).sample(records, 20)
    assert file_of(shuffled) == file_of(records)
    lines = [json.loads(line) for line in file_of(records).splitlines()]
    assert len(lines) == 20
    assert lines[0]["cost_usd"] == 0.0000015
    assert json.loads(file_of([used(nanodollars=None)]))["cost_usd"] is None


def test_totals_are_by_day_and_model_and_what_comes_to_nothing_is_left_out() -> None:
    one, other = totals_of(used()), totals_of(used(model="n", ended_at=NOW + 86_400))
    nothing = totals_of(used(model="x"))
    emptied = DayTotals(nothing.day, "x").plus(nothing, times=-1)
    assert summed([other, one, one, nothing, emptied]) == [
        DayTotals("2026-11-24", "m", 2, 6, 8, 0, 0, 3_000),
        other,
    ]


@pytest.mark.parametrize(
    ("first", "last", "days"),
    [
        (None, None, (date(2026, 11, 1), date(2026, 11, 24))),
        (None, "2026-10-31", (date(2026, 10, 1), date(2026, 10, 31))),
        (None, "0001-01-20", (date(1, 1, 1), date(1, 1, 20))),
        ("2025-11-24", None, (date(2025, 11, 24), date(2026, 11, 24))),
    ],
)
def test_the_days_that_are_asked_for(
    first: str | None, last: str | None, days: tuple[date, date]
) -> None:
    assert days_asked(first, last, NOW, 366) == days


@pytest.mark.parametrize(
    ("nanodollars", "prices", "cost"),
    [(None, "", None), (None, "m=0/0", 0.0), (1_500, "", 0.0000015)],
)
async def test_a_cost_is_told_where_a_price_is_known(
    nanodollars: int | None, prices: str, cost: float | None
) -> None:
    store, day = MemoryUsageStore(), date(2026, 11, 24)
    await store.settle(used(nanodollars=nanodollars))
    tenant = Tenant(id="acme")
    report = await usage_report(store, tenant, (day, day), NOW, prices=ModelPrices.parse(prices))
    assert [each.cost_usd for each in report.days] == [cost]
