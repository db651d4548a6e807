from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_core.fairness.fair_queue import FairQueue, Line, QueueFull


def drained(queue: FairQueue[str]) -> list[str]:
    items = []
    while (item := queue.take()) is not None:
        items.append(item)
    return items


def test_each_tenant_gets_its_turn_however_much_another_has_queued() -> None:
    queue: FairQueue[str] = FairQueue(100)
    for number in range(50):
        queue.put(Line("loud"), f"loud {number}")
    queue.put(Line("quiet"), "quiet 0")
    queue.put(Line("calm"), "calm 0")
    assert drained(queue)[:4] == ["loud 0", "quiet 0", "calm 0", "loud 1"]


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_within_a_tenant_the_first_in_is_the_first_out(tenants: list[str]) -> None:
    queue: FairQueue[str] = FairQueue(100)
    put: dict[str, list[str]] = {}
    for number, tenant in enumerate(tenants):
        item = f"{tenant}{number}"
        queue.put(Line(tenant), item)
        put.setdefault(tenant, []).append(item)
    out = drained(queue)
    for tenant, items in put.items():
        assert [item for item in out if item.startswith(tenant)] == items


@given(st.lists(st.sampled_from("abcd"), max_size=60))
def test_while_tenants_wait_none_is_served_twice_before_another_once(tenants: list[str]) -> None:
    queue: FairQueue[str] = FairQueue(100)
    waiting: Counter[str] = Counter()
    for tenant in tenants:
        queue.put(Line(tenant), tenant)
        waiting[tenant] += 1
    passed_over: Counter[str] = Counter()
    for served in drained(queue):
        waiting[served] -= 1
        passed_over[served] = 0
        for tenant, count in waiting.items():
            if count and tenant != served:
                passed_over[tenant] += 1
                assert passed_over[tenant] < len(waiting)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "take", "remove"]), st.sampled_from("abc"), st.integers(0, 5)
        )
    )
)
def test_whatever_is_done_its_length_is_what_is_in_it_and_never_over_its_depth(
    steps: list[tuple[str, str, int]],
) -> None:
    queue: FairQueue[str] = FairQueue(5)
    inside: dict[str, deque[str]] = {tenant: deque() for tenant in "abc"}
    for number, (what, tenant, which) in enumerate(steps):
        if what == "put":
            item = f"{tenant}{number}"
            if sum(map(len, inside.values())) == 5:
                with pytest.raises(QueueFull):
                    queue.put(Line(tenant), item)
            else:
                queue.put(Line(tenant), item)
                inside[tenant].append(item)
        elif what == "take":
            taken = queue.take()
            if taken is None:
                assert not any(inside.values())
            else:
                assert inside[taken[0]].popleft() == taken
        else:
            item = inside[tenant][which] if which < len(inside[tenant]) else "nothing"
            queue.remove(Line(tenant), item)
            if item in inside[tenant]:
                inside[tenant].remove(item)
        assert len(queue) == sum(map(len, inside.values()))
    assert sorted(drained(queue)) == sorted(item for line in inside.values() for item in line)
    assert len(queue) == 0


def test_a_queue_without_depth_takes_nothing() -> None:
    queue: FairQueue[str] = FairQueue(0)
    with pytest.raises(QueueFull):
        queue.put(Line("a"), "x")
    assert queue.take() is None


def test_what_was_taken_or_removed_cannot_be_removed_again() -> None:
    queue: FairQueue[str] = FairQueue(5)
    queue.put(Line("a"), "x")
    queue.put(Line("a"), "y")
    queue.take()
    queue.remove(Line("a"), "x")
    queue.remove(Line("b"), "y")
    assert len(queue) == 1
    queue.remove(Line("a"), "y")
    queue.remove(Line("a"), "y")
    assert len(queue) == 0


# -- addresses and sessions ------------------------------------------------------------------------


def test_within_a_tenant_addresses_take_turns_and_within_an_address_sessions() -> None:
    queue: FairQueue[str] = FairQueue(100)
    for session in range(10):
        for number in range(2):
            queue.put(Line("t", "loud", f"s{session}"), f"loud {session}.{number}")
    queue.put(Line("t", "quiet", "s"), "quiet 0")
    queue.put(Line("t", "quiet", "s"), "quiet 1")
    assert drained(queue)[:6] == [
        "loud 0.0",
        "quiet 0",
        "loud 1.0",
        "quiet 1",
        "loud 2.0",
        "loud 3.0",
    ]


def test_a_full_queue_has_room_for_who_has_less_instead_of_the_newest_of_who_has_most() -> None:
    queue: FairQueue[str] = FairQueue(100)
    for number in range(8):
        queue.put(Line("t", "loud", f"s{number % 4}"), f"loud {number}")
    queue.put(Line("t", "calm", "s"), "calm")
    assert queue.displaced_by(Line("t", "quiet", "s")) == "loud 7"
    assert queue.displaced_by(Line("t", "calm", "other")) == "loud 7"
    assert queue.displaced_by(Line("other", "loud", "s0")) == "loud 7"


def test_nobody_is_displaced_by_who_has_as_much_or_by_another_session_of_the_same_address() -> None:
    queue: FairQueue[str] = FairQueue(100)
    assert queue.displaced_by(Line("t", "a", "s")) is None
    for number in range(8):
        queue.put(Line("t", "a", f"s{number % 2}"), "x")
    assert queue.displaced_by(Line("t", "a", "new")) is None
    for _ in range(7):
        queue.put(Line("t", "b", "s"), "y")
    assert queue.displaced_by(Line("t", "b", "s")) is None


def test_a_sender_is_passed_over_and_the_others_keep_their_turns() -> None:
    queue: FairQueue[str] = FairQueue(100)
    for line in (Line("t", "a", "s"), Line("t", "b", "s"), Line("u", "a", "s")):
        queue.put(line, f"{line.tenant}{line.address}")
    assert [queue.take(but=("t", "a")) for _ in range(3)] == ["tb", "ua", None]
    assert (queue.take(), len(queue)) == ("ta", 0)


_LINES = st.builds(Line, *(st.sampled_from("ab"),) * 3)


@given(st.lists(_LINES, max_size=40), st.lists(st.integers(0, 39), unique=True))
def test_every_item_leaves_once_whether_it_is_taken_or_removed(
    lines: list[Line], removed: list[int]
) -> None:
    queue: FairQueue[int] = FairQueue(100)
    for number, line in enumerate(lines):
        queue.put(line, number)
    gone = [number for number in removed if number < len(lines)]
    for number in gone:
        queue.remove(lines[number], number)
    left = len(queue)
    taken = []
    while (item := queue.take()) is not None:
        taken.append(item)
    assert (left, len(queue)) == (len(taken), 0)
    assert sorted(taken + gone) == list(range(len(lines)))
