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
from fargate_handler.orchestrator import generations

RESULTS = Path(__file__).parents[1] / "results"
COLUMNS = (
    "tasks", "order",
    *(what for it in GREEDIES for what in (f"p99 beside {it.name}, of alone", "preferred")),
    "Jain, lowest 10 s", "of weights", "gap, largest answers", "tokens/s, mixed / alike",
)  # fmt: skip

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """One system, and how its connections are spread."""

    tasks: int
    order: str
    seed: int
    seconds: float


def measure(job: Job) -> Figures:
    """All stretches of one system."""

    async def stretches(spread: virtual_time.Spread) -> Figures:
        places = None if job.order == BY_DEFAULT else PLACES
        async with virtual_time.system(spread, job.tasks, places) as system:
            figures = {"alone": await quiet(system, job.seconds)}
            for greedy in GREEDIES:
                figures[f"beside {greedy.name}"] = await quiet(system, job.seconds, greedy)
                figures[preferred(greedy)] = await quiet(
                    system, job.seconds, greedy, preferred=True
                )
            figures["equal"] = await equal(system, Plan())
            figures["weighted"] = await weighted(system, Plan())
            return figures

    order = {"FairQueue": ORDERS[job.order]} if job.order in ORDERS else {}
    with patch.dict(vars(generations), order):
        return virtual_time.run(job.seed, stretches)


def row(tasks: int, order: str, spreads: Sequence[Figures]) -> tuple[str, ...]:
    """What all spreads of one system have shown."""
    equals, weights = ([it[what] for it in spreads] for what in ("equal", "weighted"))
    rates = (
        f"{median(it['tokens_per_second'] for it in found):,.0f}" for found in (equals, weights)
    )
    return (
        str(tasks),
        NAMES[order],
        *(
            _typical((slower(it, what) for it in spreads), max, ".2f")
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
    text = f"{median(found):{form}}"
    return text if len(found) == 1 else f"{text} ({worst(found):{form}})"


def _measure_all(jobs: Sequence[Job]) -> list[tuple[str, ...]]:
    found: dict[tuple[int, str], list[Figures]] = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for job, figures in zip(jobs, processes.map(measure, jobs), strict=True):
            found.setdefault((job.tasks, job.order), []).append(figures)
            print(f"measured: {job}", file=sys.stderr, flush=True)
    return [row(tasks, order, spreads) for (tasks, order), spreads in found.items()]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness.simulated", description=__doc__)
    parser.add_argument("--spreads", type=int, default=3, help="of several tasks")
    parser.add_argument("--seconds", type=float, default=30.0, help="of a quiet tenant's load")
    options = parser.parse_args(arguments)
    seeds = {1: range(1), 3: range(options.spreads)}
    jobs = [
        Job(tasks, order, seed, options.seconds)
        for tasks, its_seeds in seeds.items()
        for order in (OWN, BY_DEFAULT, FIRST_COME)
        for seed in its_seeds
    ]
    rows = [COLUMNS, *_measure_all(jobs)]
    text = (
        f"{aligned(rows)}\n\nthe median of {options.spreads} spreads over three tasks, "
        "and the worst one; preferred: each step of the engine computes the quiet tenant's "
        "prompts first\n"
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "fairness-simulated.txt").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
