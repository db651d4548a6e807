"""What the port promises by which tasks tell each other which calls they make."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.upstream.task_calls import ModelCalls, TaskCalls
from tests.integration.dynamodb_faults import Fault
from tests.integration.stores.conftest import DynamoDBStores, Tasks
from tests.integration.stores.stores import NOW

BUSY = ModelCalls(running=9, answered=4, prompts=1_200, wanted={"acme": 70, "b.2": 1}, slots=32)
ROW = TaskCalls(task="a", asked={"acme": 812, "b.2": 1}, calls={"eu.model-v1:0": BUSY})


def by_task(rows: Sequence[TaskCalls]) -> list[TaskCalls]:
    return sorted(rows, key=lambda row: row.task)


async def test_what_a_task_tells_all_read(tasks: Tasks) -> None:
    one, other = (task.calls for task in tasks)
    assert list(await other.all(NOW)) == []
    await one.tell(ROW, NOW)
    assert list(await other.all(NOW)) == [ROW]
    assert list(await one.all(NOW)) == [ROW]


async def test_a_later_row_replaces_the_earlier_one_of_its_task_alone(tasks: Tasks) -> None:
    one, other = (task.calls for task in tasks)
    await one.tell(ROW, NOW)
    await other.tell(theirs := TaskCalls(task="b", calls={"m": ModelCalls(running=1)}), NOW)
    await one.tell(later := TaskCalls(task="a"), NOW + 1)
    assert by_task(await other.all(NOW + 1)) == [later, theirs]


async def test_a_row_expires_ten_seconds_after_it_was_written(tasks: Tasks) -> None:
    one, other = (task.calls for task in tasks)
    await one.tell(ROW, NOW)
    assert list(await other.all(NOW + 9)) == [ROW]
    assert list(await other.all(NOW + 10)) == []
    await one.tell(ROW, NOW + 9)
    assert list(await other.all(NOW + 10)) == [ROW]


def test_what_another_version_has_added_is_left_out_and_what_it_lacks_is_nothing() -> None:
    text = '{"task": "a", "new": 1, "calls": {"m": {"running": 2, "newer": [3]}}}'
    assert TaskCalls.from_text(text) == TaskCalls(task="a", calls={"m": ModelCalls(running=2)})


async def test_a_sick_table_is_told_as_such(
    dynamodb_stores: DynamoDBStores, dynamodb_tasks: Tasks, short_pauses: None
) -> None:
    calls = dynamodb_tasks[0].calls
    dynamodb_stores.dynamodb.inject(Fault.THROTTLED)
    with pytest.raises(StoreUnavailable):
        await calls.tell(ROW, NOW)
    with pytest.raises(StoreUnavailable):
        await calls.all(NOW)
