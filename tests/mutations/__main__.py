"""`python -m tests.mutations`: makes one fault after the other, and sees whether the tests find
it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.mutation import DoesNotApply, Mutation, all_mutations
from tests.mutations.trial import TestsDidNotRun, Trial, Trials

# As `make test` runs them.
SUITE = (
    "tests/unit",
    "tests/integration",
    "tests/chaos",
    "tests/attack",
    "tests/differential",
    "tests/filtering",
    "tests/e2e_network",
)
PARALLEL = ("-n", "auto", "--dist", "worksteal", "--ignore=tests/integration/stock_clients")


def main() -> int:
    """Run; returns the exit status: 0 all were found, 1 one was lost, 2 they could not be tried."""
    arguments = _arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="mutations-") as scratch:
            trials = Trials(Path(scratch), arguments.tests, PARALLEL)
            done = [_tried(trials, mutation) for mutation in _chosen(arguments.names)]
            found = sorted({trial.found_by for trial in done if trial.found_by is not None})
            liar = trials.fails_without_a_fault(found) if found else None
    except (DoesNotApply, TestsDidNotRun, LookupError) as error:
        print(error, file=sys.stderr)
        return 2
    return _report(done, liar)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="faults, or parts of their names; all of them if none is named"
    )
    parser.add_argument(
        "--tests", nargs="+", default=SUITE, metavar="PATH", help="default: %(default)s"
    )
    return parser.parse_args()


def _chosen(names: Sequence[str]) -> list[Mutation]:
    known = all_mutations()
    for name in names:
        if not any(name in mutation.name for mutation in known):
            raise LookupError(f"there is no fault with {name!r} in its name")
    return [
        mutation for mutation in known if not names or any(name in mutation.name for name in names)
    ]


def _tried(trials: Trials, mutation: Mutation) -> Trial:
    print(f"{mutation.name} …", end=" ", flush=True)
    trial = trials.run(mutation)
    print(f"{trial.seconds:.0f} s: {trial.found_by or 'LOST'}", flush=True)
    return trial


def _report(done: Sequence[Trial], liar: str | None) -> int:
    width = max(len(trial.mutation.name) for trial in done)
    print(f"\n{'fault':{width}}  seconds  found by")
    for trial in done:
        print(
            f"{trial.mutation.name:{width}}  {trial.seconds:7.0f}  "
            f"{trial.found_by or 'LOST: ' + trial.mutation.breaks}"
        )
    lost = sum(trial.found_by is None for trial in done)
    print(f"\n{len(done)} faults, {lost} lost, {sum(trial.seconds for trial in done):.0f} s")
    if liar is not None:
        print(f"{liar} fails without a fault, too: what it found doesn't count", file=sys.stderr)
    return int(lost > 0 or liar is not None)


if __name__ == "__main__":
    sys.exit(main())
