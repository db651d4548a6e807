"""What fails an attack's verdict, and what the table says of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.attack.honest import EVERY_SECONDS, PATIENCE_SECONDS, Question
from tests.attack.report import as_figures, failures, table
from tests.attack.verdict import MIB, Disk, Measured, Memory, Noticed, p95

_BEGAN, _ENDED = 100.0, 110.0


def _asked(at: float, seconds: float = 0.02, gap: float = 0.01, error: str = "") -> Question:
    return Question("socket", at, seconds, gap, error)


def _calm(**fields: object) -> Measured:
    """An attack that nobody noticed."""
    measured = Measured(
        "pings",
        grows_mib=64,
        stores_mib=8,
        began_at=_BEGAN,
        ended_at=_ENDED,
        questions=[_asked(at) for at in (95.0, 99.0, 102.0, 109.0, 111.0)],
        memory=Memory(80 * MIB, 144 * MIB, 88 * MIB),
        disk=Disk(10 * MIB, 18 * MIB, 18 * MIB),
        cpu_before=0.02,
        cpu_during=0.5,
        sent_bytes=1_234_567,
    )
    for name, value in fields.items():
        setattr(measured, name, value)
    return measured


def test_what_nobody_noticed_holds() -> None:
    measured = _calm(log_lines=1_000)
    assert measured.failures == []
    *_, line = table([measured]).splitlines()
    expected = "pings 20 20 20 10 10 2 50 80 144 88 10 18 18 0 100 1,234,567 held"
    assert " ".join(line.split()) == expected
    assert failures([measured], {"pings": "many pings"}) == ""


_HARMFUL: dict[str, Callable[[], Measured]] = {
    "first token p95": lambda: _calm(
        questions=[_asked(95.0), _asked(102.0, 0.02 + 0.051), _asked(112.0)]
    ),
    "longest gap p95": lambda: _calm(
        questions=[_asked(95.0), _asked(102.0, gap=0.01 + 0.051), _asked(112.0)]
    ),
    "no honest reader": lambda: _calm(questions=[_asked(95.0), _asked(112.0)]),
    "1 socket queue_full": lambda: _calm(
        questions=[_asked(95.0), _asked(102.0), _asked(103.0, error="queue_full")]
    ),
    "1 socket wrong text": lambda: _calm(
        questions=[_asked(95.0), _asked(102.0), _asked(112.0, error="wrong text")]
    ),
    "memory grew": lambda: _calm(memory=Memory(80 * MIB, 145 * MIB, 80 * MIB)),
    "memory is": lambda: _calm(memory=Memory(80 * MIB, 90 * MIB, 89 * MIB)),
    "the store grew": lambda: _calm(disk=Disk(10 * MIB, 19 * MIB, 10 * MIB)),
    "log lines a second": lambda: _calm(log_lines=1_001),
    "the server was drained": lambda: _calm(misses=["the server was drained"]),
}


@pytest.mark.parametrize("harm", list(_HARMFUL))
def test_each_harm_alone_fails_the_attack(harm: str) -> None:
    measured = _HARMFUL[harm]()
    assert len(measured.failures) == 1
    assert harm in measured.failures[0]
    assert "FAILED" in table([measured])
    assert harm in failures([measured], {"pings": "many pings"})
    assert as_figures(measured)["failures"] == measured.failures


def test_what_is_kept_by_intent_may_stay() -> None:
    before, after = 80 * MIB, 140 * MIB
    assert _calm(memory=Memory(before, after, after)).failures
    assert not _calm(memory=Memory(before, after, after, kept=52 * MIB)).failures
    assert not _calm(memory=Memory(before, after, after), slack_mib=52).failures


def test_an_honest_question_broken_before_the_attack_is_not_its_fault() -> None:
    questions = [_asked(95.0), _asked(96.0, error="queue_full"), _asked(102.0)]
    assert _calm(questions=questions).broken.total() == 0


def test_questions_count_where_they_were_asked() -> None:
    questions = [_asked(99.9, 0.01), _asked(100.0, 0.02), _asked(110.0, 0.03)]
    measured = _calm(questions=questions)
    assert measured.before == Noticed(0.01, 0.01)
    assert measured.during == Noticed(0.02, 0.01)
    assert measured.after == Noticed(0.03, 0.01)


def test_of_slow_answers_a_tenth_more_is_no_harm() -> None:
    slow = [_asked(95.0, 2.0, 1.0), _asked(102.0, 2.15, 1.06), _asked(111.0)]
    assert _calm(questions=slow).failures == []
    slow[1] = _asked(102.0, 2.4, 1.25)
    assert len(_calm(questions=slow).failures) == 2


def test_a_broken_answer_has_no_pace() -> None:
    assert Noticed.of([_asked(102.0, 0.02, error="queue_full")]) == Noticed(0.02, None)


def test_one_long_stop_counts_for_all_that_would_have_been_asked_meanwhile() -> None:
    quick = [_asked(100 + EVERY_SECONDS * number, 0.02) for number in range(50)]
    stopped = [*quick, _asked(111.0, 25 * EVERY_SECONDS)]
    assert p95([it.seconds for it in quick]) == pytest.approx(0.02)
    late = p95([it.seconds for it in stopped])
    assert late is not None
    assert late > 20 * EVERY_SECONDS


def test_nobody_waits_longer_than_a_reader_does() -> None:
    assert p95([100 * PATIENCE_SECONDS]) == pytest.approx(PATIENCE_SECONDS, rel=0.1)
    assert p95([]) is None


def test_log_lines_of_a_moment_are_those_of_a_second() -> None:
    assert _calm(ended_at=_BEGAN + 0.1, log_lines=99, questions=()).failures == []
