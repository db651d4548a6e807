"""Tasks that ask one server divide its slots, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes, max_min
from evenflow.stream_core.upstream.node_reports import ModelCallReport, NodeReport


def row(task: str, slots: int | None = None, **wanted: int) -> NodeReport:
    running = min(9, sum(wanted.values()))
    calls = ModelCallReport(running=running, answered=1, prompts=9, wanted=wanted, limit=slots)
    return NodeReport(node=task, calls={"m": calls})


def of(own: NodeReport, rows: list[NodeReport]) -> CallsOnOtherNodes:
    return CallsOnOtherNodes.of("m", own, rows)


def parts(
    slots: int, rows: list[NodeReport], weight_of: Callable[[str], float] = lambda _: 1.0
) -> list[int]:
    return [CallsOnOtherNodes.of("m", each, rows, weight_of).divide(slots).calls for each in rows]


def test_a_task_that_is_alone_has_all_of_them() -> None:
    assert CallsOnOtherNodes().divide(32).calls == 32
    assert parts(32, [row("a", t=500)]) == [32]


def test_until_tasks_have_told_something_each_has_an_equal_part() -> None:
    assert CallsOnOtherNodes(unreported_nodes=2).divide(32).calls == 10
    assert CallsOnOtherNodes(unreported_nodes=49).divide(32).calls == 1


def test_in_its_first_second_a_task_does_not_take_others_for_idle() -> None:
    """They may have begun in the same one, and their rows say what was before."""
    own, other = row("a", t=500), NodeReport(node="b")
    first = CallsOnOtherNodes.of("m", own, [other], called_before=False)
    assert first.divide(32).calls == 16
    assert CallsOnOtherNodes.of("m", own, [other]).divide(32).calls == 32


def test_tasks_that_want_more_than_there_are_have_equal_parts_and_all_of_them_together() -> None:
    assert parts(32, [row("a", t=500), row("b", t=100), row("c", t=11)]) == [10, 11, 11]


def test_what_one_does_not_want_the_others_divide() -> None:
    assert parts(32, [row("a", t=500), row("b", t=2), row("c", t=90)]) == [15, 5, 15]


def test_a_tenant_has_no_more_for_asking_a_task_that_others_do_not_ask() -> None:
    rows = [row("a", long=40), row("b", x=20, y=20, z=20), row("c", x=20, y=20, z=20)]
    assert parts(32, rows) == [8, 12, 12]


def test_a_heavy_tenant_has_more_wherever_it_asks() -> None:
    weights = {"heavy": 3.0, "light": 1.0}
    rows = [row("a", heavy=90), row("b", light=90)]
    assert parts(32, rows, weights.__getitem__) == [24, 8]


def test_a_task_whose_tenants_want_little_has_room_for_who_comes() -> None:
    assert parts(32, [row("a", t=500), row("b", t=1)]) == [31, 8]
    assert parts(32, [row("a", t=3), row("b", t=1)]) == [31, 29], "what nobody wants is for all"
    assert of(row("a"), [row("b", t=500)]).divide(32).calls == 8


def test_a_task_has_one_slot_at_least() -> None:
    assert set(parts(8, [row(f"t{number:02}", t=5) for number in range(20)])) == {1}


def test_other_models_and_the_task_s_own_row_do_not_count() -> None:
    other_model = NodeReport(node="b", calls={"other": ModelCallReport(running=9, limit=2)})
    own = row("a", slots=3, t=9)
    assert of(own, [own, other_model]) == CallsOnOtherNodes()
    assert of(NodeReport(node="a"), [own, other_model]) == CallsOnOtherNodes(unreported_nodes=1)


def test_the_calls_of_others_are_added_and_their_fewest_slots_count() -> None:
    rows = [row("a", t=1), row("b", slots=30, t=7), row("c", slots=28, t=7), row("d", t=1)]
    found = of(rows[1], rows)
    assert (found.running, found.answered, found.prompts, found.limit) == (9, 3, 27, 28)
    assert of(rows[2], rows).limit == 30
    assert of(rows[0], rows[:1]).limit is None


def test_the_delay_is_the_mean_of_all_tasks_so_that_one_that_errs_is_of_little_account() -> None:
    certain = {"m": ModelCallReport(running=1, delay=0.0002)}
    rows = [row("a", t=1), NodeReport(node="b", calls=certain), *(row(name, t=1) for name in "cd")]
    assert of(rows[0], rows).delay == 0.0002 / 4


WANTED = st.dictionaries(st.sampled_from("tuvwx"), st.integers(0, 60))


@given(st.lists(WANTED, min_size=2, max_size=12), st.integers(12, 100))
def test_tasks_use_what_there_is_and_little_more(wanted: list[dict[str, int]], slots: int) -> None:
    rows = [row(f"t{number:02}", **wants) for number, wants in enumerate(wanted)]
    wants = [sum(it.values()) for it in wanted]
    used = [min(part, want) for part, want in zip(parts(slots, rows), wants, strict=True)]
    if sum(wants) <= slots:
        assert used == wants
    else:
        assert sum(used) >= slots - len(wanted)
        # A task has half of an equal part, whatever its tenants have elsewhere.
        assert sum(used) <= 1.5 * slots + len(wanted)


@given(
    st.floats(0, 1_000),
    st.dictionaries(st.sampled_from(["a", "b", "c", "dd", "ee"]), st.floats(0, 100), min_size=1),
    st.floats(0.1, 9),
)
def test_nobody_has_more_than_they_want_and_who_has_less_has_as_much_as_any(
    amount: float, wanted: Mapping[str, float], weight: float
) -> None:
    weights = {key: weight if len(key) == 1 else 1.0 for key in wanted}
    shares = max_min(amount, wanted, weights.__getitem__)
    assert sum(shares.values()) == pytest.approx(min(amount, sum(wanted.values())), abs=1e-6)
    most = max(shares[key] / weights[key] for key in shares)
    for key, share in shares.items():
        assert share <= wanted[key]
        if share < wanted[key] - 1e-6:
            assert share / weights[key] == pytest.approx(most, abs=1e-6)


def test_an_equal_part_is_of_all_and_all_parts_are_all() -> None:
    rows = [row(task, t=9) for task in "abc"]
    assert [of(each, rows).equal_part(3) for each in rows] == [1, 1, 1]
    assert [of(each, rows).equal_part(2) for each in rows] == [0, 1, 1]
    assert CallsOnOtherNodes(unreported_nodes=2).equal_part(7) == 2


def test_who_wants_more_than_its_share_of_all_tasks_wants_much() -> None:
    rows = [row("a", greedy=20, quiet=2), row("b", greedy=9, other=15)]
    assert of(rows[0], rows).divide(32).heavy == {"greedy"}
    assert of(rows[0], rows).divide(24).heavy == {"greedy", "other"}
    assert not CallsOnOtherNodes().divide(1).heavy


def test_what_a_tenant_has_it_has_at_the_tasks_that_it_asks() -> None:
    rows = [row("a", greedy=20, quiet=2), row("b", greedy=20), row("c", greedy=2, other=9)]
    parts = [of(each, rows).divide(24).of_tenants for each in rows]
    assert parts[0] == {"greedy": 5.5, "quiet": 2}
    assert parts[1] == {"greedy": 5.5}
    assert parts[2] == {"greedy": 2, "other": 9}
