"""The table, the verdict, and the file with all figures."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.e2e_network.cells import BACK_SECONDS, MOST_TIMES
from tests.e2e_network.stage import Outcome

_WANTED = {sign.value: seconds for sign, seconds in BACK_SECONDS.items()}


def line(outcome: Outcome) -> str:
    """One scenario."""
    seconds = "      -" if outcome.seconds is None else f"{outcome.seconds:7.3f}"
    late = f"late: at most {outcome.most_seconds:.2f} s" if outcome.is_late else "ok"
    told = "; ".join(outcome.faults) or late
    return f"{outcome.group:8}  {outcome.name:57}  {seconds} s  {outcome.notes:9}  {told}"


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Per group: percentiles, and what is wrong."""
    lines = []
    for group in dict.fromkeys(outcome.group for outcome in outcomes):
        those = [outcome for outcome in outcomes if outcome.group == group]
        faulty = sum(bool(outcome.faults) for outcome in those)
        wanted = f", wanted p95 {_WANTED[group]:g} s" if group in _WANTED else ""
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
    found += [
        f"{outcome.name.strip()}: {outcome.seconds:.2f} s, at most {outcome.most_seconds:.2f} s"
        for outcome in outcomes
        if outcome.is_late and outcome.group not in _WANTED
    ]
    for group, wanted in _WANTED.items():
        those = [outcome for outcome in outcomes if outcome.group == group]
        p95 = percentile(those, 95)
        if those and p95 > MOST_TIMES * wanted:
            found.append(f"{group}: p95 {p95:.3f} s is more than {MOST_TIMES} times {wanted:g} s")
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
