"""The forms of entries: what the stores keep, and what a task does with a form that it doesn't
know.
"""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_aws.response_items import head_key
from evenflow.stream_core.log.entries import LogEntry, Part, PartKind, Restart
from evenflow.stream_core.stores.response_store import TEXT_FORM, TYPED_FORM, Lease, NewerForm
from evenflow.stream_core.stores.stored_json import plain_entries, read_ending, read_entries
from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import NOW, Stores, chunk, completed, lease_of, new_name

PARTS: list[LogEntry] = [
    Part(PartKind.REASONING, "let me see", name="reasoning_content"),
    "Hello",
    Part(PartKind.CALL, id="call_1", name="search"),
    Part(PartKind.ARGUMENTS, '{"q":"é"}'),
    Part(PartKind.CALL_END),
    Restart(-1, 2),
    Part(PartKind.TEXT, "another", choice=1),
    Part(PartKind.DATA, '{"url":"https://example.com"}', name="source"),
]


@pytest.fixture
def version_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on this task is of a version that knows text alone."""
    monkeypatch.setattr("evenflow.stream_core.stores.response_store.NEWEST_FORM", TEXT_FORM)
    monkeypatch.setattr("evenflow.stream_aws.response_items.NEWEST_FORM", TEXT_FORM)


async def form_of(stores: Stores, lease: Lease) -> int:
    head = await stores.responses.head(lease.response_id, NOW)
    assert head is not None
    return head.form


async def test_parts_come_back_as_they_were(stores: Stores) -> None:
    lease = await stores.begin("a")
    await stores.write(lease, 0, PARTS[:3])
    await stores.write(lease, 3, PARTS[3:])
    assert await stores.read(lease.response_id) == PARTS
    await stores.responses.finish(lease, completed(len(PARTS)), NOW + 300)
    assert await stores.read(lease.response_id, 2) == PARTS[2:]


async def test_a_response_has_the_newest_form_of_its_entries(stores: Stores) -> None:
    lease, other = await stores.begin("a"), await stores.begin("a")
    await stores.write(lease, 0, ["a", Restart(-1, 2)])
    assert await form_of(stores, lease) == TEXT_FORM
    both = [chunk(lease, 2, PARTS), chunk(other, 0, ["b"])]
    assert list(await stores.responses.append(both)) == []
    await stores.write(lease, 10, ["c"])
    assert await form_of(stores, lease) == TYPED_FORM
    assert await form_of(stores, other) == TEXT_FORM


async def test_a_response_with_parts_is_taken_over_with_them(stores: Stores) -> None:
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, PARTS)
    taken = await stores.responses.take_over(old.response_id, "b", NOW)
    assert taken is not None
    assert list(taken.entries) == PARTS
    new = lease_of(taken)
    assert new is not None
    await stores.write(new, len(PARTS), [PARTS[0]])
    await stores.responses.finish(new, completed(len(PARTS) + 1), NOW + 300)
    head = await stores.responses.head(old.response_id, NOW)
    assert head is not None
    assert head.ending == completed(len(PARTS) + 1)
    assert await stores.responses.take_over(old.response_id, "c", NOW) is None


async def test_what_a_former_owner_writes_does_not_change_the_form(stores: Stores) -> None:
    old = await stores.begin(new_name("task"))
    assert await stores.responses.take_over(old.response_id, "b", NOW) is not None
    await stores.write(old, 0, PARTS)
    assert await form_of(stores, old) == TEXT_FORM
    assert await stores.read(old.response_id) == []


@pytest.mark.usefixtures("version_before")
async def test_a_newer_form_is_refused_and_left_to_those_who_know_it(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, typed = await stores.begin(owner := new_name("task")), await stores.begin(owner)
    await stores.write(left, 0, ["a"])
    await stores.write(typed, 0, PARTS)
    with pytest.raises(NewerForm, match="form 2"):
        await stores.responses.entries(typed.response_id, 0, NOW)
    for _ in range(2):  # the first time it is not known that the owner is lost
        assert await stores.responses.take_over(typed.response_id, "b", NOW) is None
    taken = await stores.responses.take_over(left.response_id, "b", NOW)
    assert taken is not None
    assert list(taken.entries) == ["a"]
    monkeypatch.undo()
    taken = await stores.responses.take_over(typed.response_id, "c", NOW)
    assert lease_of(taken) == Lease(typed.response_id, "c", 2)
    assert await stores.read(typed.response_id) == PARTS


async def test_tasks_from_before_the_forms_take_it_for_ended_with_an_error(
    dynamodb_stores: DynamoDBStores,
) -> None:
    """They read `ending` of a head, and `entries` of a chunk, and nothing else."""
    stores, lease = dynamodb_stores, await dynamodb_stores.begin("a")
    await stores.write(lease, 0, ["a"])
    await stores.write(lease, 1, PARTS)
    for ended in (False, True):
        items = (
            await stores.client.query(
                TableName=stores.tables.responses,
                KeyConditionExpression="response_id = :r",
                ExpressionAttributeValues={":r": {"S": lease.response_id}},
                ConsistentRead=True,
            )
        )["Items"]
        told = read_ending(next(item["ending"]["S"] for item in items if "ending" in item))
        assert told.next_index == 0
        assert told.error is not None
        assert (told.error["code"], told.error["type"]) == ("newer_form", "overloaded_error")
        assert [item["entries"]["S"] for item in items if "entries" in item] == [f'[{NOW},["a"]]']
        if not ended:
            with pytest.raises(ClientError, match="conditional request failed"):
                await stores.client.update_item(
                    TableName=stores.tables.responses,
                    Key=head_key(lease.response_id),
                    UpdateExpression="SET epoch = epoch + :one",
                    ConditionExpression="attribute_not_exists(ending)",
                    ExpressionAttributeValues={":one": {"N": "1"}},
                )
            await stores.responses.finish(lease, completed(1 + len(PARTS)), NOW + 300)
    head = await stores.responses.head(lease.response_id, NOW)
    assert head is not None
    assert head.ending == completed(1 + len(PARTS))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)


@given(
    st.lists(
        st.one_of(
            TEXTS,
            st.builds(
                Part,
                st.sampled_from(PartKind),
                text=TEXTS,
                choice=st.integers(0, 3),
                call=st.integers(0, 3),
                id=TEXTS,
                name=TEXTS,
            ),
            st.builds(
                Restart, st.integers(-1, 9), st.integers(1, 9), st.integers(0, 3), st.booleans()
            ),
        )
    )
)
def test_the_plain_form_says_everything(entries: list[LogEntry]) -> None:
    assert read_entries(plain_entries(entries)) == entries


@pytest.mark.parametrize(
    ("entry", "plain"),
    [
        ("a", "a"),
        (Restart(-1, 2), [-1, 2]),
        (Restart(-1, 2, withdraws=True), [-1, -2]),
        (Part(PartKind.CALL_END), ["call_end"]),
        (Part(PartKind.REASONING, "b"), ["reasoning", "b"]),
        (
            Part(PartKind.CALL, call=1, id="call_1", name="search"),
            ["call", "", 0, 1, "call_1", "search"],
        ),
    ],
)
def test_the_plain_form_is_what_other_versions_read(entry: LogEntry, plain: object) -> None:
    assert plain_entries([entry]) == [plain]
