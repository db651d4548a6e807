"""`python -m bench.fairness`: one task and three, each with Evenflow's own order, the same with the
default places, plain round robin by request, and first come first served. One table, with JSON and
a plot in bench/results/. With `--fleet` the default alone, before a service that refuses what is
too much, in the place of the engine, and with so many questions that the 99th percentile is not the
slowest one.

Exits with 0 when everything was measured and every answer was whole, however fair; with 1 when one
was not, and with 2 when something could not be measured.
"""

import argparse
import gc
import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import uvloop

from bench.fairness.engine import Costs
from bench.fairness.handler import FIRST_COME, OWN, ROUND_ROBIN
from bench.fairness.report import BY_DEFAULT, NAMES, goals, plot, preferred, table
from bench.fairness.scenarios import GREEDIES, Plan, equal, quiet, weighted
from bench.fairness.system import PLACES, system
from bench.machine import alone, description, raise_descriptor_limit
from bench.report import table as table_of_goals
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings

RESULTS = Path(__file__).parents[1] / "results"
TASKS = (1, 3)
ORDERS = (OWN, BY_DEFAULT, ROUND_ROBIN, FIRST_COME)

Found = dict[int, dict[str, dict[str, Any]]]
Say = Callable[[str], None]


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    began = monotonic()

    def say(text: str) -> None:
        print(f"[{monotonic() - began:5.0f} s] {text}", file=sys.stderr, flush=True)

    raise_descriptor_limit()
    gc.disable()  # its pauses would be measured as the server's
    machine, found = description(), Found()
    if options.quick:
        plan = Plan(own=8.0, others=8.0, waiting=22.0)
    else:
        plan = Plan(own=200.0) if options.fleet else Plan()
    with alone(say):
        try:
            for tasks in options.tasks or TASKS:
                for order in (BY_DEFAULT,) if options.fleet else ORDERS:
                    uvloop.run(_measure(order, tasks, plan, found, say, options.fleet))
        except (OSError, RuntimeError) as error:
            say(f"NOT MEASURED: {error}")
            return 2
    text = _write(machine, found, options.fleet)
    print(f"\n{text}")
    return 1 if any(_faults(found)) else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short stretches, which say little")
    parser.add_argument("--fleet", action="store_true", help="before a service that refuses")
    parser.add_argument("--tasks", type=int, action="append", choices=TASKS, help="only so many")
    return parser.parse_args(arguments)


async def _measure(order: str, tasks: int, plan: Plan, found: Found, say: Say, fleet: bool) -> None:
    figures: dict[str, Any] = {}
    by_order = found.setdefault(tasks, {})
    by_default = order == BY_DEFAULT
    seconds = plan.own if order in (OWN, BY_DEFAULT) else plan.others
    async with system(
        OWN if by_default else order, tasks, None if by_default else PLACES, fleet
    ) as running:
        # Alone there is nobody to be in order with, so one order is enough.
        figures["alone"] = by_order[OWN]["alone"] if by_order else await quiet(running, seconds)
        say(f"{tasks} tasks, {NAMES[order]}, alone: {figures['alone']}")
        for greedy in GREEDIES:
            what = f"beside {greedy.name}"
            figures[what] = await quiet(running, seconds, greedy)
            say(f"{tasks} tasks, {NAMES[order]}, {what}: {figures[what]}")
            if order == OWN:
                what = preferred(greedy)
                figures[what] = await quiet(running, seconds, greedy, preferred=True)
                say(f"{tasks} tasks, {what}: {figures[what]}")
        figures["equal"] = await equal(running, plan)
        say(f"{tasks} tasks, {NAMES[order]}, equal tenants: {figures['equal']}")
        figures["weighted"] = await weighted(running, plan)
        say(f"{tasks} tasks, {NAMES[order]}, weights: {figures['weighted']}")
    by_order[order] = figures


def _faults(found: Found) -> list[int]:
    return [it["faults"] for by in found.values() for some in by.values() for it in some.values()]


def _write(machine: str, found: Found, fleet: bool) -> str:
    """The text of the tables, which is written with the JSON and the plot."""
    RESULTS.mkdir(exist_ok=True)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    default = HandlerSettings.model_fields["generations_per_node"].default
    greedy = "\n".join(f"the greedy tenant's {it.name}: {it.what}" for it in GREEDIES)
    places = None if fleet else PLACES
    if fleet:
        name, before = "fairness-fleet", f"{default:,} (default), the service's"
    else:
        name = "fairness"
        before = f"{PLACES} divided among the tasks (default {default:,}), the engine's"
    text = (
        f"{when}\n{machine}\ngenerations_per_node {before} sequences {Costs().sequences}\n{greedy}"
        f"\n\n{table(found)}\n\n{table_of_goals(goals(found))}\n"
    )
    (RESULTS / f"{name}.txt").write_text(text)
    values = {"when": when, "machine": machine, "places": places, "tasks": found}
    (RESULTS / f"{name}.json").write_text(json.dumps(values, indent=2) + "\n")
    plot(found, RESULTS / f"{name}.png")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
