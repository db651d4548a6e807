from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.queue.fair_queue import FairQueue, Line, QueueFull
from evenflow.stream_core.queue.token_counters import TokenCounters


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
    assert [queue.take(excluded=("t", "a")) for _ in range(3)] == ["tb", "ua", None]
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


# -- who was given least ---------------------------------------------------------------------------


def test_the_tenant_that_was_given_least_for_its_weight_is_next() -> None:
    counters = TokenCounters({"heavy": 4.0, "light": 1.0, "other": 1.0}.__getitem__)
    queue: FairQueue[str] = FairQueue(100, counters)
    for tenant in ("light", "heavy", "other"):
        queue.put(Line(tenant), tenant)
    counters.charge("light", 10)
    counters.charge("heavy", 20)
    counters.charge("other", 11)
    assert drained(queue) == ["heavy", "light", "other"]


def test_what_other_tasks_gave_a_tenant_counts() -> None:
    counters = TokenCounters()
    queue: FairQueue[str] = FairQueue(100, counters)
    for tenant in ("a", "b"):
        queue.put(Line(tenant), tenant)
    counters.charge_on_other_nodes("a", 5)
    assert drained(queue) == ["b", "a"]
    assert counters.served == {}


def test_who_comes_while_others_are_answered_without_waiting_has_little_saved_up() -> None:
    counters = TokenCounters(saved_up=lambda _: 100)
    queue: FairQueue[str] = FairQueue(100, counters)
    queue.record_immediate_turn(Line("busy"))
    counters.charge("busy", 1_000)
    for number in range(2):
        queue.put(Line("late"), f"late {number}")
        queue.put(Line("busy"), f"busy {number}")
    counters.charge("late", 101)
    assert drained(queue)[0] == "busy 0"


def test_what_is_remembered_of_tenants_is_bounded() -> None:
    counters = TokenCounters()
    queue: FairQueue[str] = FairQueue(100, counters)
    for number in range(30_000):
        queue.record_immediate_turn(Line(f"t{number}"))
        counters.charge(f"t{number}", 1)
    assert len(counters.served) <= 10_001


def test_who_has_answers_that_run_is_remembered_however_many_others_come() -> None:
    counters = TokenCounters()
    queue: FairQueue[str] = FairQueue(100, counters)
    counters.charge("running", 500)
    counters.add_expected("running", 100)
    for number in range(10_001):
        queue.record_immediate_turn(Line(f"t{number}"))
    assert counters.of("running") == 600


# -- classes and times -----------------------------------------------------------------------------


def test_a_higher_class_comes_first_and_a_lower_one_still_has_one_turn_in_twenty() -> None:
    queue: FairQueue[str] = FairQueue(100)
    for number in range(2):
        queue.put(Line("t", service_class=ServiceClass.BATCH), f"batch {number}")
    for _ in range(50):
        queue.put(Line("u", service_class=ServiceClass.INTERACTIVE), "interactive")
    out = drained(queue)
    assert (out.index("batch 0"), out.index("batch 1")) == (20, 40)


def test_a_class_that_does_not_wait_gathers_no_turns() -> None:
    queue: FairQueue[str] = FairQueue(100)
    for _ in range(60):
        queue.put(Line("u", service_class=ServiceClass.INTERACTIVE), "interactive")
    for _ in range(40):
        queue.take()
    queue.put(Line("t", service_class=ServiceClass.BATCH), "batch")
    assert drained(queue).index("batch") == 20


def test_of_an_address_what_is_wanted_first_comes_first_and_all_else_still_comes() -> None:
    queue: FairQueue[str] = FairQueue(100)
    queue.put(Line("t", "a", "s0"), "whenever")
    for number, wanted_by in enumerate([3.0, 1.0, 2.0, 1.0]):
        queue.put(Line("t", "a", f"s{number}"), f"{wanted_by} {number}", wanted_by)
    assert drained(queue) == ["1.0 1", "1.0 3", "2.0 2", "3.0 0", "whenever"]
    queue.put(Line("t", "a", "s0"), "whenever")
    for number in range(50):
        queue.put(Line("t", "a", "s"), f"{number}", float(number))
    assert drained(queue).index("whenever") == 20


def test_an_address_takes_no_turns_of_others_by_naming_times() -> None:
    queue: FairQueue[str] = FairQueue(100)
    for number in range(5):
        queue.put(Line("t", "hasty", f"s{number}"), "hasty", 0.0)
        queue.put(Line("t", "calm", f"s{number}"), "calm")
    assert drained(queue) == ["hasty", "calm"] * 5


def test_what_is_wanted_by_a_time_can_be_removed() -> None:
    queue: FairQueue[str] = FairQueue(100)
    queue.put(Line("t", "a", "s"), "x", 1.0)
    queue.put(Line("t", "a", "s"), "y", 2.0)
    queue.remove(Line("t", "a", "s"), "x")
    queue.remove(Line("t", "a", "s"), "x")
    assert (drained(queue), len(queue)) == (["y"], 0)


def test_of_who_has_the_most_the_least_urgent_one_makes_room() -> None:
    queue: FairQueue[str] = FairQueue(100)
    queue.put(Line("t", "loud", "s", ServiceClass.BATCH), "batch")
    for number in range(3):
        queue.put(Line("t", "loud", "s"), f"standard {number}")
    assert queue.displaced_by(Line("t", "quiet", "s")) == "batch"
    queue.remove(Line("t", "loud", "s", ServiceClass.BATCH), "batch")
    assert queue.displaced_by(Line("t", "quiet", "s")) == "standard 2"
    queue.put(Line("t", "loud", "s"), "urgent", 1.0)
    assert queue.displaced_by(Line("t", "quiet", "s")) == "standard 2"


def test_a_class_that_may_not_begin_for_long_does_not_come_before_all_others_afterwards() -> None:
    queue: FairQueue[str] = FairQueue(1_000)
    for _ in range(20):
        queue.put(Line("t", service_class=ServiceClass.BATCH), "batch")
    for _ in range(600):
        queue.put(Line("u", service_class=ServiceClass.INTERACTIVE), "interactive")
    for _ in range(400):
        queue.take(admits=lambda item: item != "batch")
    out = drained(queue)[:100]
    assert out.count("batch") <= 2 + 0.05 * len(out)


def test_what_is_wanted_first_and_may_not_begin_keeps_nothing_else_waiting() -> None:
    queue: FairQueue[str] = FairQueue(100)
    for session, wanted_by in (("closed", 1.0), ("open", 2.0)):
        queue.put(Line("t", "a", session), session, wanted_by)
    assert queue.take(admits=lambda item: item != "closed") == "open"
    assert queue.take(admits=lambda item: item != "closed") is None
    assert drained(queue) == ["closed"]


def test_where_all_that_an_address_waits_for_is_closed_none_of_it_is_looked_at() -> None:
    queue: FairQueue[str] = FairQueue(10_000)
    for number in range(1_000):
        queue.put(Line("t", "many", f"s{number}"), f"closed {number}", group="closed")
    asked = list[tuple[str, str]]()

    def closed(tenant: str, kind: str) -> bool:
        asked.append((tenant, kind))
        return kind == "closed"

    looked_at = list[str]()

    def admits(item: str) -> bool:
        looked_at.append(item)
        return not item.startswith("closed")

    assert queue.take(admits=admits, closed=closed) is None
    assert (looked_at, asked) == ([], [("t", "closed")])
    queue.put(Line("t", "many", "last"), "open", group="open")
    queue.put(Line("t", "many", "urgent"), "closed", 1.0, group="closed")
    assert queue.take(admits=admits, closed=closed) == "open"
    looked_at.clear()
    queue.remove(Line("t", "many", "urgent"), "closed")
    assert queue.take(admits=admits, closed=closed) is None
    assert looked_at == []
    assert drained(queue) == [f"closed {number}" for number in range(1_000)]


def test_where_nobody_may_begin_each_tenant_is_looked_at_a_few_times() -> None:
    looks = 0

    def weight_of(_tenant: str) -> float:
        nonlocal looks
        looks += 1
        return 1.0

    counters = TokenCounters(weight_of)
    queue: FairQueue[str] = FairQueue(10_000, counters)
    for number in range(1_000):
        queue.put(Line(f"t{number}"), "x")
        counters.add_expected(f"t{number}", 1.0)
    looks = 0
    assert queue.take(admits=lambda _: False) is None
    assert looks <= 4 * 1_000


def test_a_tenant_is_as_urgent_as_the_most_urgent_that_waits_of_it() -> None:
    queue = FairQueue[str](9)
    assert queue.urgency("t") == 3
    queue.put(Line("t", service_class=ServiceClass.BATCH), "batch")
    queue.put(Line("u"), "standard")
    assert [queue.urgency(tenant) for tenant in "tu"] == [2, 1]
    queue.put(Line("t", service_class=ServiceClass.INTERACTIVE), "interactive")
    assert queue.urgency("t") == 0
