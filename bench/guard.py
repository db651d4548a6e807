"""`python -m bench.guard`: compares Evenflow's speed with the one that is recorded in
bench/guard.json, in about three minutes.

Each figure is a ratio to something that is measured in the same round, so that the machine cancels
out. The server has one core, the load the other. Exits with 1 if a figure is more than 10 % worse
than recorded and no round was within the recorded ones, or if a reader saw a fault; with 2 if
something could not be measured, or other programs used the core. Then nothing is recorded.
"""

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench import instructions
from bench.machine import alone, description, why_interpreted
from bench.plan import fitted, full_plan
from bench.processes import MUCH_DISTURBED_PERCENT
from bench.report import aligned
from bench.scenarios import RunningScenario

RECORD = Path(__file__).with_name("guard.json")
WORSE_PERCENT = 10.0
HOW_TO_RECORD = "make bench-guard RECORD=1, or bench-guard-short"
ROUNDS = 2
CONNECTIONS = 2_000
SECONDS = 2.0
INSTRUCTIONS = "instructions a token, the interpreted core without sockets"
NGINX = "relayed tokens a CPU second, /v1, of nginx"
HIGHER_IS_BETTER = ("frames a CPU second, of bare picows", NGINX)


@dataclass(frozen=True)
class Figure:
    """A figure over the rounds of one run."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of_rounds(cls, rounds: Sequence[float]) -> "Figure":
        return cls(median(rounds), min(rounds), max(rounds))

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"{self.median:,.4g}"
        return f"{self.median:.3f} ({self.lowest:.3f}–{self.highest:.3f})"


@dataclass(frozen=True)
class Comparison:
    """A figure beside the recorded one."""

    name: str
    recorded: Figure
    now: Figure

    @property
    def change_percent(self) -> float:
        return 100 * (self.now.median / self.recorded.median - 1)

    @property
    def is_worse(self) -> bool:
        """Whether it is much worse, and more so than the rounds of either run differ."""
        if self.name.startswith(HIGHER_IS_BETTER):
            is_apart = self.now.highest < self.recorded.lowest
            return is_apart and self.change_percent < -WORSE_PERCENT
        is_apart = self.now.lowest > self.recorded.highest
        return is_apart and self.change_percent > WORSE_PERCENT


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    rounds = 0 if options.instructions else options.rounds
    figures, failures = _measured(rounds)
    record: dict[str, Any] = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    if options.record and not failures:
        record |= _as_json(figures)
        RECORD.write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    status = _report(figures, record)
    if failures:
        print("\n".join(failures))
        status = 1 if any(failure.startswith("FAULTS") for failure in failures) else 2
    if options.show:
        print("--show: for information, the exit status is 0 whatever was measured")
        return 0
    return status


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.guard", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the figures as the record")
    parser.add_argument("--show", action="store_true", help="print the table, and exit with 0")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="a minute each")
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="only count instructions, which works beside other programs (needs valgrind)",
    )
    return parser.parse_args(arguments)


def _measured(rounds: int) -> tuple[dict[str, Figure], list[str]]:
    """The figures, and what could not be measured or was wrong. Without a round, the
    instructions alone.
    """
    plan = replace(full_plan(), connections=CONNECTIONS, rounds=rounds, saturation_seconds=SECONDS)
    figures: dict[str, Figure] = {}
    failures: list[str] = []
    if (missing := instructions.missing()) is None:
        plan.say(f"guard: {INSTRUCTIONS}")
        try:
            figures[INSTRUCTIONS] = Figure.of_rounds([instructions.per_token()])
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            failures.append(f"NOT MEASURED: {INSTRUCTIONS}: {error}")
    else:
        print(f"skipped: {INSTRUCTIONS}: {missing}")
    if not rounds:
        return figures, failures
    with alone(plan.say):
        outcome = RunningScenario("guard", fitted(plan)).outcome()
    if outcome.failure:
        return figures, [*failures, f"NOT MEASURED: {outcome.failure}"]
    measured: Mapping[str, list[float]] = outcome.figures["rounds"]
    form = "interpreted" if why_interpreted() else "compiled"
    figures |= {f"{name}; {form}": Figure.of_rounds(it) for name, it in measured.items()}
    if NGINX not in measured:
        failures.append(f"NOT MEASURED: {NGINX}: apt-get install nginx-light")
    if (disturbed := outcome.figures["others_percent"]) >= MUCH_DISTURBED_PERCENT:
        failures.append(
            f"DISTURBED: other programs took {disturbed:.0f} % of the server's core: "
            "measure again on a quiet machine"
        )
    if outcome.faults:
        failures.append(f"FAULTS: {outcome.faults} gaps, duplicates, wrong or unfinished texts")
    return figures, failures


def _described() -> dict[str, str]:
    commit = subprocess.run(
        ["git", "-C", str(RECORD.parent), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "when": when,
        "commit": commit or "unknown",
        "machine": description(),
        "python": _python(),
    }


def _python() -> str:
    """What the number of instructions depends on, beside our code."""
    return f"{platform.python_version()}, {platform.python_compiler()}, {platform.machine()}"


def _as_json(figures: Mapping[str, Figure]) -> dict[str, dict[str, Any]]:
    """The record of some figures. Each says where it is from: they may be recorded apart."""
    described = _described()
    return {
        name: {key: float(f"{value:.4g}") for key, value in asdict(figure).items()} | described
        for name, figure in figures.items()
    }


def _report(figures: Mapping[str, Figure], record: Mapping[str, Any]) -> int:
    """Print the table. Returns the exit status."""
    comparisons = []
    for name, figure in figures.items():
        recorded = record.get(name)
        if recorded is None:
            print(f"not recorded ({HOW_TO_RECORD}): {name}: {figure}")
        elif name == INSTRUCTIONS and recorded["python"] != _python():
            print(f"not compared, recorded with Python {recorded['python']}: {name}: {figure}")
        else:
            kept = Figure(recorded["median"], recorded["lowest"], recorded["highest"])
            comparisons.append(Comparison(name, kept, figure))
    sources = {_source(record[compared.name]) for compared in comparisons}
    print("\n".join([*sorted(sources), f"now: {description()}", ""]))
    print(aligned([("figure", "recorded", "now", "change"), *map(_cells, comparisons)]))
    is_worse = any(compared.is_worse for compared in comparisons)
    if is_worse:
        print(
            f"WORSE than recorded by more than {WORSE_PERCENT:g} %; if it is meant: {HOW_TO_RECORD}"
        )
    return 1 if is_worse else 0


def _source(recorded: Mapping[str, Any]) -> str:
    return f"recorded {recorded['when'][:10]} at {recorded['commit']}: {recorded['machine']}"


def _cells(compared: Comparison) -> tuple[str, str, str, str]:
    verdict = "  WORSE" if compared.is_worse else ""
    change = f"{compared.change_percent:+.1f} %{verdict}"
    better = "more" if compared.name.startswith(HIGHER_IS_BETTER) else "less"
    name = f"{compared.name} ({better} is better)"
    return name, str(compared.recorded), str(compared.now), change


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
