"""The table, the verdict, and the file with all figures."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.e2e_network.cells import Sign
from tests.e2e_network.stage import Outcome

BACK_SECONDS = {Sign.NONE.value: 2.0, Sign.EVENT.value: 0.3, Sign.BUTTON.value: 0.3}
"""Within so many, text is on the screen again in 95 of 100 cases."""
_MOST_TIMES = 3
"""A run fails beyond so many times as much: machines are busy."""


def line(outcome: Outcome) -> str:
    """One scenario."""
    seconds = "      -" if outcome.seconds is None else f"{outcome.seconds:7.3f}"
    told = "; ".join(outcome.faults) or "ok"
    return f"{outcome.group:8}  {outcome.name:57}  {seconds} s  {outcome.notes:9}  {told}"


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Per group: percentiles, and what is wrong."""
    lines = []
    for group in dict.fromkeys(outcome.group for outcome in outcomes):
        those = [outcome for outcome in outcomes if outcome.group == group]
        faulty = sum(bool(outcome.faults) for outcome in those)
        wanted = f", wanted p95 {BACK_SECONDS[group]:g} s" if group in BACK_SECONDS else ""
        lines.append(
            f"{group:8}  p50 {_percentile(those, 50)}  p95 {_percentile(those, 95)}{wanted}; "
            f"{faulty} of {len(those)} faulty"
        )
    return lines


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """Why the run fails."""
    found = [
        f"{outcome.name.strip()}: {'; '.join(outcome.faults)}"
        for outcome in outcomes
        if outcome.faults
    ]
    for group, wanted in BACK_SECONDS.items():
        those = [outcome for outcome in outcomes if outcome.group == group]
        p95 = percentile(those, 95)
        if those and p95 > _MOST_TIMES * wanted:
            found.append(f"{group}: p95 {p95:.3f} s is more than {_MOST_TIMES} times {wanted:g} s")
    return found


def percentile(outcomes: Sequence[Outcome], percent: float) -> float:
    """Of their seconds; what never came took for ever."""
    seconds = sorted(math.inf if it.seconds is None else it.seconds for it in outcomes)
    return seconds[max(0, math.ceil(len(seconds) * percent / 100) - 1)] if seconds else 0.0


def write(folder: Path, outcomes: Sequence[Outcome], text: str) -> None:
    """Write both files."""
    (folder / "report.txt").write_text(text)
    figures = [asdict(outcome) for outcome in outcomes]
    (folder / "report.json").write_text(json.dumps(figures, indent=1) + "\n")


def _percentile(outcomes: Sequence[Outcome], percent: float) -> str:
    value = percentile(outcomes, percent)
    return "never" if math.isinf(value) else f"{value:.3f} s"
