from __future__ import annotations

from evenflow.stream_core.bounds.log_rate import LogRate


def test_one_line_a_second_of_each_kind() -> None:
    rate = LogRate()
    assert rate.admit("a", 5.0) == 0
    assert rate.admit("b", 5.0) == 0
    assert rate.admit("a", 5.9) is None
    assert rate.admit("a", 6.0) == 1


def test_the_next_line_says_how_many_were_left_out() -> None:
    rate = LogRate()
    admitted = [rate.admit("a", step / 100) for step in range(250)]
    assert [left_out for left_out in admitted if left_out is not None] == [0, 99, 99]
    assert rate.admit("a", 60.0) == 49
    assert rate.admit("a", 61.0) == 0


def test_kinds_that_somebody_makes_up_are_one_kind_in_the_end() -> None:
    rate = LogRate()
    first = [rate.admit(f"made up {number}", 0.5) for number in range(1_000)]
    assert sum(left_out is not None for left_out in first) == 65
    # A kind that is known keeps its line, and a second later there is room again.
    assert rate.admit("made up 3", 1.0) is None
    assert rate.admit("made up 3", 1.5) == 1
    assert rate.admit("new", 1.5) == 0


def test_of_some_kinds_more_are_admitted() -> None:
    rate = LogRate()
    admitted = [rate.admit("a", step / 10, 3) for step in range(20)]
    assert [step for step, left_out in enumerate(admitted) if left_out is not None] == [
        *(0, 1, 2),
        *(10, 11, 12),
    ]
    assert admitted[10:13] == [7, 0, 0]


def test_a_clock_that_stands_still_admits_one() -> None:
    rate = LogRate()
    assert [rate.admit("a", 1.0) for _ in range(3)] == [0, None, None]


def test_what_was_left_out_of_a_forgotten_kind_is_still_told() -> None:
    rate = LogRate()
    for number in range(64):
        rate.admit(f"kind {number}", 0.5)
        rate.admit(f"kind {number}", 0.5)
    for number in range(63):
        assert rate.admit(f"later {number}", 2.0) == 0, "there is room: the others are forgotten"
    assert rate.admit("one too many", 2.0) == 64
    assert rate.admit("another", 3.0) == 0
