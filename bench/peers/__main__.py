"""`python -m bench.peers`: measures Evenflow and what a user might pick instead, prints one table,
and writes it with JSON and a plot to bench/results/.

A system that can't be installed or started here is a line that says so. Exits with 0 when Evenflow
lost and doubled nothing, whatever the speed; with 1 when it did, and with 2 when it could not be
measured.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from bench.machine import alone, description, raise_descriptor_limit
from bench.peers.measure import FULL, QUICK
from bench.peers.report import plot, report
from bench.peers.run import measured
from bench.peers.systems import SYSTEMS

RESULTS = Path(__file__).parents[1] / "results"
OURS = ("evenflow", "evenflow-websocket")


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    plan = QUICK if options.quick else FULL
    begin = monotonic()

    def say(text: str) -> None:
        print(f"[{monotonic() - begin:5.0f} s] {text}", file=sys.stderr, flush=True)

    raise_descriptor_limit()
    machine = description()
    found = {}
    with alone(say):
        for system in SYSTEMS:
            if not options.only or system.key in options.only:
                say(system.name)
                found[system.key] = measured(system, plan)
                say(f"{system.name}: {found[system.key].get('failure', 'measured')}")
                # Each time, so that a run that is broken off leaves what it has found.
                text = _write(machine, " ".join(("python -m bench.peers", *arguments)), found)
    print(f"\n{text}")
    ours = [figures for key, figures in found.items() if key in OURS]
    if any(_faults(figures) for figures in ours):
        return 1
    return 2 if any(_failed(figures) for figures in ours) else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at small counts")
    parser.add_argument(
        "--only",
        action="append",
        choices=[system.key for system in SYSTEMS],
        help="one system; may be repeated",
    )
    return parser.parse_args(arguments)


def _faults(figures: dict[str, Any]) -> int:
    """Gaps, duplicates, wrong texts, and answers that did not end or begin, in all phases."""
    phases = [it for it in figures.values() if isinstance(it, dict) and "content" in it]
    kinds = ("gaps", "duplicates", "wrong", "unfinished")
    return sum(phase["content"][kind] for phase in phases for kind in kinds)


def _failed(figures: dict[str, Any]) -> bool:
    phases = [it for it in figures.values() if isinstance(it, dict)]
    return "failure" in figures or any("failure" in phase for phase in phases)


def _write(machine: str, command: str, found: dict[str, dict[str, Any]]) -> str:
    """The text of the table, which is written with the JSON and the plot."""
    RESULTS.mkdir(exist_ok=True)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    text = f"{when}\n{machine}\n{command}\n\n{report(found)}\n"
    (RESULTS / "peers.txt").write_text(text)
    values = {"when": when, "machine": machine, "command": command, "systems": found}
    (RESULTS / "peers.json").write_text(json.dumps(values, indent=2) + "\n")
    plot(found, RESULTS / "peers.png")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
