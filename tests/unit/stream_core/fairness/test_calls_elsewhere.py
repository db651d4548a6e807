"""Tasks that ask one server divide its slots, each by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stream_core.fairness.calls_elsewhere import CallsElsewhere
from stream_core.ports.task_calls import ModelCalls, TaskCalls


def row(task: str, running: int, waiting: int = 0, slots: int | None = None) -> TaskCalls:
    calls = ModelCalls(running=running, answered=1, prompts=9, waiting=waiting, slots=slots)
    return TaskCalls(task=task, calls={"m": calls})


def parts(slots: int, rows: list[TaskCalls]) -> list[int]:
    return [CallsElsewhere.of("m", each.task, rows).part(slots) for each in rows]


def test_a_task_that_is_alone_has_all_of_them() -> None:
    assert CallsElsewhere().part(32) == 32
    assert parts(32, [row("a", 500)]) == [32]


def test_tasks_that_want_more_than_there_are_have_equal_parts_and_all_of_them_together() -> None:
    assert parts(32, [row("a", 500), row("b", 20, waiting=80), row("c", 11)]) == [10, 11, 11]


def test_what_one_does_not_want_the_others_divide() -> None:
    assert parts(32, [row("a", 500), row("b", 2), row("c", 90)]) == [15, 11, 15]


def test_who_wants_little_may_still_have_an_equal_part() -> None:
    assert parts(32, [row("a", 500), row("b", 0, waiting=1)])[1] == 16


def test_a_task_has_one_slot_at_least() -> None:
    assert set(parts(8, [row(f"t{number:02}", 5) for number in range(20)])) == {1}


def test_other_models_and_the_task_s_own_row_do_not_count() -> None:
    other_model = TaskCalls(task="b", calls={"other": ModelCalls(running=9, slots=2)})
    rows = [row("a", 9, slots=3), other_model]
    assert CallsElsewhere.of("m", "a", rows) == CallsElsewhere()


def test_the_calls_of_others_are_added_and_their_fewest_slots_count() -> None:
    rows = [row("a", 1), row("b", 5, waiting=2, slots=30), row("c", 7, slots=28), row("d", 1)]
    found = CallsElsewhere.of("m", "b", rows)
    assert (found.running, found.answered, found.prompts, found.slots) == (9, 3, 27, 28)
    assert CallsElsewhere.of("m", "c", rows).slots == 30
    assert CallsElsewhere.of("m", "a", rows[:1]).slots is None


def test_the_delay_is_the_mean_of_all_tasks_so_that_one_that_errs_is_of_little_account() -> None:
    certain = {"m": ModelCalls(running=1, delay=0.0002)}
    rows = [row("a", 1), TaskCalls(task="b", calls=certain), *(row(name, 1) for name in "cd")]
    assert CallsElsewhere.of("m", "a", rows).delay == 0.0002 / 4


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=12),
    st.integers(min_value=12, max_value=100),
)
def test_parts_are_never_more_than_there_are_and_none_is_idle_while_another_waits(
    wanted: list[int], slots: int
) -> None:
    rows = [row(f"t{number:02}", running) for number, running in enumerate(wanted)]
    used = [min(part, want) for part, want in zip(parts(slots, rows), wanted, strict=True)]
    assert sum(used) <= slots
    if sum(wanted) >= slots:
        assert sum(used) >= slots - len(wanted)
    else:
        assert used == wanted
