"""What fails a run, and how it is counted."""

from __future__ import annotations

import pytest

from tests.chaos.answer_check import AnswerCheck, Kind
from tests.chaos.arrival_rate import arrival_rate
from tests.chaos.plan import Plan
from tests.chaos.report import as_figures, table, targets
from tests.chaos.window import Window


@pytest.mark.parametrize("kind", list(Kind))
def test_each_kind_of_problem_fails_the_window_and_stands_in_the_table(kind: Kind) -> None:
    check = AnswerCheck("text")
    check.problem(kind, "made up")
    window = Window("kill")
    assert not window.failed
    window.count(check)
    assert window.failed
    assert as_figures(window)["problems"] == {kind: 1}
    assert "1" in table([window]).splitlines()[-1].split()[4:10]


def test_a_call_made_twice_fails_the_window() -> None:
    window = Window("kill", response_ids={"rsp_1", "rsp_2"})
    window.count_calls({"rsp_1:1:1": 1, "rsp_1:2:1": 1, "rsp_2:1:1": 1, "rsp_3:1:1": 5})
    assert (window.model_calls, window.billed_twice, window.failed) == (3, 0, False)
    window.count_calls({"rsp_1:1:1": 1, "rsp_2:1:1": 3})
    assert (window.model_calls, window.billed_twice, window.failed) == (4, 2, True)


def test_what_a_fault_misses_fails_the_window() -> None:
    assert Window("drain", misses=["it did not leave"]).failed


def test_a_stated_error_is_counted_and_fails_nothing() -> None:
    check = AnswerCheck("text")
    check.take(
        {
            "type": "chat.response.error",
            "last_index": -1,
            "error": {"code": "model_timeout", "message": "late"},
        }
    )
    window = Window("kill")
    window.count(check)
    assert (window.errors.total(), window.failed) == (1, False)


def test_even_arrivals_are_never_above_the_rate() -> None:
    even = arrival_rate([number / 250 for number in range(1_000)], 250)
    assert even.connections == 1_000
    assert even.above < 0.01


def test_a_burst_is_above_the_rate_by_what_its_window_may_not_have() -> None:
    burst = arrival_rate([0.0] * 50 + [1.0 + number / 100 for number in range(50)], 250)
    assert burst.most == 50
    assert burst.above == pytest.approx(0.25)


def test_targets_are_judged_by_their_bounds() -> None:
    late = Window("kill", recoveries=[3.0] * 90 + [4.0] * 10)
    early = Window("kill", recoveries=[3.0] * 99 + [4.0])
    assert [verdict.split()[0] for verdict in targets([late, early], Plan(1))] == ["MISSED", "met"]
