from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fargate_handler.orchestrator.fair_queue import FairQueue, QueueFull


def drained(queue: FairQueue[str]) -> list[str]:
    items = []
    while (item := queue.take()) is not None:
        items.append(item)
    return items


def test_each_tenant_gets_its_turn_however_much_another_has_queued() -> None:
    queue: FairQueue[str] = FairQueue(100)
    for number in range(50):
        queue.put("loud", f"loud {number}")
    queue.put("quiet", "quiet 0")
    queue.put("calm", "calm 0")
    assert drained(queue)[:4] == ["loud 0", "quiet 0", "calm 0", "loud 1"]


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_within_a_tenant_the_first_in_is_the_first_out(tenants: list[str]) -> None:
    queue: FairQueue[str] = FairQueue(100)
    put: dict[str, list[str]] = {}
    for number, tenant in enumerate(tenants):
        item = f"{tenant}{number}"
        queue.put(tenant, item)
        put.setdefault(tenant, []).append(item)
    out = drained(queue)
    for tenant, items in put.items():
        assert [item for item in out if item.startswith(tenant)] == items


@given(st.lists(st.sampled_from("abcd"), max_size=60))
def test_while_tenants_wait_none_is_served_twice_before_another_once(tenants: list[str]) -> None:
    queue: FairQueue[str] = FairQueue(100)
    waiting: Counter[str] = Counter()
    for tenant in tenants:
        queue.put(tenant, tenant)
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
                    queue.put(tenant, item)
            else:
                queue.put(tenant, item)
                inside[tenant].append(item)
        elif what == "take":
            taken = queue.take()
            if taken is None:
                assert not any(inside.values())
            else:
                assert inside[taken[0]].popleft() == taken
        else:
            item = inside[tenant][which] if which < len(inside[tenant]) else "nothing"
            queue.remove(tenant, item)
            if item in inside[tenant]:
                inside[tenant].remove(item)
        assert len(queue) == sum(map(len, inside.values()))
    assert sorted(drained(queue)) == sorted(item for line in inside.values() for item in line)
    assert len(queue) == 0


def test_a_queue_without_depth_takes_nothing() -> None:
    queue: FairQueue[str] = FairQueue(0)
    with pytest.raises(QueueFull):
        queue.put("a", "x")
    assert queue.take() is None


def test_what_was_taken_or_removed_cannot_be_removed_again() -> None:
    queue: FairQueue[str] = FairQueue(5)
    queue.put("a", "x")
    queue.put("a", "y")
    queue.take()
    queue.remove("a", "x")
    queue.remove("b", "y")
    assert len(queue) == 1
    queue.remove("a", "y")
    queue.remove("a", "y")
    assert len(queue) == 0
