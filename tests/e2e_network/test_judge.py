"""Each fault that a reader could see is found, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.e2e_network import report
from tests.e2e_network.browser import State
from tests.e2e_network.judge import Log, back_after, faults, longest_silence
from tests.e2e_network.stage import Outcome, Question

_TEXT = Question("one", 4, 10.0).answer
_LOG = Log("completed", _TEXT)
_STATE = State(
    texts=[_TEXT],
    is_over=True,
    problem=None,
    notices=["Complete"],
    response_id="r1",
    token="t",
    transport="sse",
    changes=[(10.0, 5), (10.5, 11), (13.0, 23)],
    taken_back=[],
)


def _faults(state: State = _STATE, log: Log = _LOG, calls: int = 1) -> list[str]:
    return faults(state, log, model_text=_TEXT, model_calls=calls)


def test_a_whole_answer_is_right() -> None:
    assert _TEXT == "1.1:0 1.1:1 1.1:2 1.1:3"
    assert _faults() == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"texts": ["1.1:0 1.1:1 1.1:3"]}, "on the screen: 1 missing, first 1.1:2 (of 4 words)"),
        ({"texts": [f"{_TEXT} 1.1:3"]}, "on the screen: 1 twice, first 1.1:3 (of 4 words)"),
        (
            {"texts": ["1.1:1 1.1:0 1.1:2 1.1:3"]},
            "on the screen: in another order (of 4 words)",
        ),
        ({"is_over": False}, "no end"),
        ({"problem": "The server cannot be reached"}, "given up: The server cannot be reached"),
        ({"notices": ["No WebSocket could be opened"]}, "the reader is told of transports"),
        ({"taken_back": [("1.1:0", "")]}, "taken back on the screen: '1.1:0', then ''"),
    ],
)
def test_what_is_wrong_on_the_screen_is_told(changed: dict[str, object], told: str) -> None:
    (found,) = _faults(replace(_STATE, **changed))  # type: ignore[arg-type]
    assert found.startswith(told)


def test_a_second_answer_beside_the_first_is_told() -> None:
    assert "2 answers on the screen" in _faults(replace(_STATE, texts=[_TEXT, _TEXT]))


def test_a_log_that_is_not_what_the_model_said_is_told() -> None:
    short = "1.1:0 1.1:1"
    found = _faults(replace(_STATE, texts=[short]), Log("cancelled", short))
    assert found == [
        "the server's log is cancelled",
        "in the log: 2 missing, first 1.1:2 (of 4 words)",
    ]


def test_a_second_call_of_the_model_is_told() -> None:
    assert _faults(calls=2) == ["2 calls of the model"]


def test_the_times_are_those_of_the_screen() -> None:
    assert back_after(_STATE, 10.1) == pytest.approx(0.4)
    assert back_after(_STATE, 14.0) is None
    assert longest_silence(_STATE) == pytest.approx(2.5)


def test_what_is_only_late_is_no_fault_yet() -> None:
    late = Outcome("drained", "one", 2.0, [], most_seconds=1.0)
    assert late.is_late
    assert not replace(late, seconds=0.5).is_late
    assert not replace(late, faults=["given up"]).is_late
    assert report.failures([late]) == ["one: 2.00 s, at most 1.00 s"]


def test_what_did_not_begin_is_played_again_and_counts_then() -> None:
    unbegun = Outcome("drained", "one", None, ["did not begin by sse"])
    assert unbegun.may_be_load
    assert not replace(unbegun, faults=[*unbegun.faults, "given up"]).may_be_load
    assert report.failures([unbegun]) == ["one: did not begin by sse"]
