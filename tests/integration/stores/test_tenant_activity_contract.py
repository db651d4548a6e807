"""What the port promises by which tasks tell each other what they do for each tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.tenant_activity import Activity
from tests.integration.dynamodb_faults import Fault
from tests.integration.stores.conftest import DynamoDBStores, Tasks
from tests.integration.stores.stores import NOW

ROW = Activity("acme", "a", 12.5, 3, 40, 50, 2, 7, 8.5)


def by_task(rows: Sequence[Activity]) -> list[Activity]:
    return sorted(rows, key=lambda row: (row.tenant, row.task))


async def test_what_a_task_notes_others_read(tasks: Tasks) -> None:
    one, other = (task.activity for task in tasks)
    assert list(await other.of(["acme"], NOW)) == []
    await one.note([ROW], NOW)
    assert list(await other.of(["acme"], NOW)) == [ROW]
    assert list(await one.of(["acme"], NOW)) == [ROW]


async def test_a_later_row_replaces_the_earlier_one_of_its_task_alone(tasks: Tasks) -> None:
    one, other = (task.activity for task in tasks)
    await one.note([ROW], NOW)
    await other.note([theirs := replace(ROW, task="b", service=1.25)], NOW)
    await one.note([later := replace(ROW, service=20.5, answers=0)], NOW + 1)
    assert by_task(await other.of(["acme"], NOW + 1)) == [later, theirs]


async def test_only_the_tenants_that_are_asked_for_are_read_and_each_once(tasks: Tasks) -> None:
    one, other = (task.activity for task in tasks)
    rows = [replace(ROW, tenant=f"t{number}") for number in range(40)]
    await one.note(rows, NOW)
    assert by_task(await other.of(["t3", "t11", "t3", "nobody"], NOW)) == [rows[11], rows[3]]
    assert list(await other.of([], NOW)) == []
    await one.note([], NOW)


async def test_a_row_expires_a_minute_after_it_was_written(tasks: Tasks) -> None:
    one, other = (task.activity for task in tasks)
    await one.note([ROW], NOW)
    assert list(await other.of(["acme"], NOW + 59)) == [ROW]
    assert list(await other.of(["acme"], NOW + 60)) == []
    await one.note([ROW], NOW + 50)
    assert list(await other.of(["acme"], NOW + 60)) == [ROW]


async def test_a_sick_table_is_told_as_such(
    dynamodb_stores: DynamoDBStores, dynamodb_tasks: Tasks, short_pauses: None
) -> None:
    activity = dynamodb_tasks[0].activity
    dynamodb_stores.dynamodb.inject(Fault.THROTTLED)
    with pytest.raises(StoreUnavailable):
        await activity.note([ROW], NOW)
    with pytest.raises(StoreUnavailable):
        await activity.of(["acme"], NOW)
