"""When the guard of Evenflow's speed says that a figure is worse than recorded."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from bench import guard, instructions
from bench.guard import INSTRUCTIONS, NGINX, Comparison, Figure
from bench.report import Outcome


@pytest.fixture(autouse=True)
def a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at what is compiled on this one."""
    monkeypatch.setattr(guard, "description", lambda: "a machine")
    monkeypatch.setattr(guard, "why_interpreted", lambda: "nothing was compiled")


@pytest.mark.parametrize(
    ("name", "recorded", "now", "is_worse"),
    [
        pytest.param(INSTRUCTIONS, [100.0], [111.0], True, id="more instructions"),
        pytest.param(INSTRUCTIONS, [100.0], [109.0], False, id="a little more"),
        pytest.param(INSTRUCTIONS, [100.0], [50.0], False, id="fewer"),
        pytest.param("CPU", [90, 100, 110], [112, 115, 120], True, id="all rounds are worse"),
        pytest.param("CPU", [90, 100, 118], [112, 115, 120], False, id="within the spread"),
        pytest.param(NGINX, [0.7, 0.8, 0.9], [0.5, 0.6, 0.69], True, id="fewer tokens"),
        pytest.param(NGINX, [0.7, 0.8, 0.9], [0.5, 0.6, 0.71], False, id="one round was as good"),
        pytest.param(NGINX, [0.7, 0.8, 0.9], [1.5, 1.6, 1.7], False, id="more tokens"),
    ],
)
def test_a_figure_is_worse_by_more_than_a_tenth_and_by_more_than_rounds_differ(
    name: str, recorded: list[float], now: list[float], is_worse: bool
) -> None:
    compared = Comparison(name, Figure.of_rounds(recorded), Figure.of_rounds(now))
    assert compared.is_worse is is_worse


def _measures(monkeypatch: pytest.MonkeyPatch, count: float) -> None:
    monkeypatch.setattr(instructions, "missing", lambda: None)
    monkeypatch.setattr(instructions, "per_token", lambda: count)


def test_a_worse_figure_fails_the_run_unless_it_is_only_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guard, "RECORD", tmp_path / "guard.json")
    _measures(monkeypatch, 100.0)
    assert guard.main(["--instructions", "--record"]) == 0
    assert guard.main(["--instructions"]) == 0
    _measures(monkeypatch, 120.0)
    assert guard.main(["--instructions"]) == 1
    assert "+20.0 %  WORSE" in capsys.readouterr().out
    assert guard.main(["--instructions", "--show"]) == 0
    assert "the exit status is 0 whatever was measured" in capsys.readouterr().out


def test_a_run_beside_other_programs_is_no_record_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Disturbed:
        def __init__(self, _name: str, _plan: object) -> None:
            pass

        def outcome(self) -> Outcome:
            rounds = {NGINX: [0.5, 0.6]}
            figures = {"rounds": rounds, "others_percent": 30.0}
            return Outcome("guard", figures=figures)

    _measures(monkeypatch, 100.0)
    monkeypatch.setattr(guard, "RECORD", tmp_path / "guard.json")
    monkeypatch.setattr(guard, "RunningScenario", Disturbed)
    monkeypatch.setattr(guard, "alone", lambda _say: nullcontext())
    assert guard.main(["--record"]) == 2
    assert "other programs took 30 % of the server's core" in capsys.readouterr().out
    assert not guard.RECORD.exists()


def test_without_valgrind_the_instructions_are_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(instructions, "missing", lambda: "apt-get install valgrind")
    assert guard.main(["--instructions"]) == 0
    assert f"skipped: {INSTRUCTIONS}: apt-get install valgrind" in capsys.readouterr().out
