"""`python -m bench`: runs the scenarios, prints one table, and writes it with JSON and a plot to
bench/results/.

Exits with 0 when everything was measured and no client saw a gap, a duplicate or a wrong byte,
whatever the speed; with 1 when one did, and with 2 when a scenario could not be measured.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.machine import alone, description
from bench.plan import Plan, fitted, full_plan, quick_plan
from bench.plot import plot_jitter
from bench.processes import MUCH_DISTURBED_PERCENT
from bench.report import Outcome, Row, table
from bench.scenarios import RunningScenario

RESULTS = Path(__file__).parent / "results"
BACKGROUND = "vanish"  # idle for more than a minute, so it runs beside the others
OTHERS = "others_on_server_core_percent"
FOREGROUND = (
    "saturation",
    "streaming",
    "sse",
    "setup",
    "encoders",
    "relay",
    "trace",
    "burst",
    "fallback",
    "store",
    "ended",
    "features",
    "audience",
    "processes",
)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    machine = description()
    plan = fitted(quick_plan() if options.quick else full_plan())
    plan.say(machine)
    with alone(plan.say):
        outcomes = _measure(
            options.only or [*FOREGROUND, *(() if options.quick else (BACKGROUND,))], plan
        )
    _write(machine, outcomes)
    if any(outcome.faults for outcome in outcomes):
        return 1
    return 2 if any(outcome.failure for outcome in outcomes) else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="at small counts; leaves out `vanish`",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=[*FOREGROUND, BACKGROUND],
        help="one scenario; may be repeated",
    )
    return parser.parse_args(arguments)


def _measure(chosen: Sequence[str], plan: Plan) -> list[Outcome]:
    background = [RunningScenario(BACKGROUND, plan)] if BACKGROUND in chosen else []
    outcomes = [RunningScenario(name, plan).outcome() for name in FOREGROUND if name in chosen]
    return outcomes + [scenario.outcome() for scenario in background]


def _write(machine: str, outcomes: Sequence[Outcome]) -> None:
    RESULTS.mkdir(exist_ok=True)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [row for outcome in outcomes for row in _rows(outcome)]
    report = f"{when}\n{machine}\n\n{table(rows)}\n{_warning(outcomes)}"
    figures = {
        it.scenario: it.figures | {"faults": it.faults, "failure": it.failure} for it in outcomes
    }
    (RESULTS / "latest.txt").write_text(report)
    (RESULTS / "latest.json").write_text(
        json.dumps({"when": when, "machine": machine, **figures}, indent=2) + "\n"
    )
    for outcome in outcomes:
        if outcome.scenario == "streaming" and not outcome.failure:
            plot_jitter(outcome.figures, RESULTS / "jitter.png")
    print(f"\n{report}")


def _warning(outcomes: Sequence[Outcome]) -> str:
    """A line that says so, when others used the server's core while a figure was measured on it."""
    most = max(
        (percent for outcome in outcomes for percent in _others(outcome.figures)), default=0.0
    )
    if most < MUCH_DISTURBED_PERCENT:
        return ""
    return (
        f"\nDISTURBED: other programs took up to {most:.0f} % of the server's core; measure again "
        "on a quiet machine.\n"
    )


def _others(figures: object) -> Iterator[float]:
    """Every reading of that share in a scenario's figures, however deep."""
    if isinstance(figures, dict):
        yield from (value for name, value in figures.items() if name == OTHERS)
        figures = list(figures.values())
    if isinstance(figures, list):
        for part in figures:
            yield from _others(part)


def _rows(outcome: Outcome) -> list[Row]:
    return (
        [Row(outcome.scenario, f"NOT MEASURED: {outcome.failure}", "FAIL")]
        if outcome.failure
        else outcome.rows
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
