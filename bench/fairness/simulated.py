"""`python -m bench.fairness.simulated`: the same measurement in virtual time, so that it shows what
the orders do, and not the machine: each run has the same figures. Several spreads of connections
over the tasks, in as many processes as there are cores. A table in bench/results/ too.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from bench.fairness import virtual_time
from bench.fairness.handler import FIRST_COME, ORDERS, OWN
from bench.fairness.report import BY_DEFAULT, NAMES, preferred, slower
from bench.fairness.scenarios import GREEDIES, Plan, equal, quiet, weighted
from bench.fairness.system import PLACES
from bench.report import aligned
from evenflow.fargate_handler.orchestrator import generations

RESULTS = Path(__file__).parents[1] / "results"
ENGINE, FLEET = "an engine", "a service that refuses"
COLUMNS = (
    "tasks", "before", "order",
    *(what for it in GREEDIES for what in (f"p99 beside {it.name}, of alone", "preferred")),
    "Jain, lowest 10 s", "of weights", "gap, largest answers", "tokens/s, mixed / alike",
)  # fmt: skip

# Before a service first come, first served takes minutes of computing, by the thousands that wait.
ORDERS_BEFORE = {ENGINE: (OWN, BY_DEFAULT, FIRST_COME), FLEET: (BY_DEFAULT,)}

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """One system, what it asks, and how its connections are spread."""

    tasks: int
    before: str
    order: str
    seed: int
    seconds: float


def measure(job: Job) -> Figures:
    """All stretches of one system."""

    async def stretches(spread: virtual_time.Spread) -> Figures:
        fleet = job.before == FLEET
        places = None if job.order == BY_DEFAULT else PLACES
        async with virtual_time.system(spread, job.tasks, places, fleet) as system:
            figures = {"alone": await quiet(system, job.seconds)}
            for greedy in GREEDIES:
                figures[f"beside {greedy.name}"] = await quiet(system, job.seconds, greedy)
                if not fleet:
                    figures[preferred(greedy)] = await quiet(
                        system, job.seconds, greedy, preferred=True
                    )
            figures["equal"] = await equal(system, Plan())
            figures["weighted"] = await weighted(system, Plan())
            return figures

    order = {"FairQueue": ORDERS[job.order]} if job.order in ORDERS else {}
    with patch.dict(vars(generations), order):
        return virtual_time.run(job.seed, stretches)


def row(tasks: int, before: str, order: str, spreads: Sequence[Figures]) -> tuple[str, ...]:
    """What all spreads of one system have shown."""
    equals, weights = ([it[what] for it in spreads] for what in ("equal", "weighted"))
    rates = (
        f"{median(it['tokens_per_second'] for it in found):,.0f}" for found in (equals, weights)
    )
    return (
        str(tasks),
        before,
        NAMES[order],
        *(
            _typical((slower(it, what) for it in spreads if what in it), max, ".2f")
            for greedy in GREEDIES
            for what in (f"beside {greedy.name}", preferred(greedy))
        ),
        _typical((it["jain_lowest"] for it in equals), min, ".4f"),
        _typical((it["jain_lowest"] for it in weights), min, ".4f"),
        _typical((it["gap"] / it["largest"] for it in equals), max, ".1f"),
        " / ".join(rates),
    )


def _typical(values: Iterable[float], worst: Callable[[list[float]], float], form: str) -> str:
    """The median, and of several the worst one."""
    found = [*values]
    if not found:
        return "-"
    text = f"{median(found):{form}}"
    return text if len(found) == 1 else f"{text} ({worst(found):{form}})"


def _measure_all(jobs: Sequence[Job]) -> list[tuple[str, ...]]:
    found: dict[tuple[int, str, str], list[Figures]] = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for job, figures in zip(jobs, processes.map(measure, jobs), strict=True):
            found.setdefault((job.tasks, job.before, job.order), []).append(figures)
            print(f"measured: {job}", file=sys.stderr, flush=True)
    return [row(*system, spreads) for system, spreads in found.items()]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness.simulated", description=__doc__)
    parser.add_argument("--spreads", type=int, default=3, help="of several tasks")
    parser.add_argument("--before", choices=[*ORDERS_BEFORE], help="only what is before that")
    parser.add_argument("--seconds", type=float, default=30.0, help="of a quiet tenant's load")
    options = parser.parse_args(arguments)
    seeds = {1: range(1), 3: range(options.spreads)}
    jobs = [
        Job(tasks, before, order, seed, options.seconds)
        for before, orders in ORDERS_BEFORE.items()
        for tasks, its_seeds in seeds.items()
        for order in orders
        for seed in its_seeds
        if options.before in (None, before)
    ]
    rows = [COLUMNS, *_measure_all(jobs)]
    text = (
        f"{aligned(rows)}\n\nthe median of {options.spreads} spreads over three tasks, "
        "and the worst one; the service has as many machines as the engine has sequences, and "
        "refuses what is more (429); preferred: each step of the engine computes the quiet "
        "tenant's prompts first\n"
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "fairness-simulated.txt").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
