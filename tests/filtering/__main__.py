"""`python -m tests.filtering --secrets 10000`: does a planted secret get anywhere, and what
filtering costs.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.filtering.campaign import percentile, plant
from tests.filtering.delays import delays_of_prose, summary, times_to_restart

_MOST_ADDED_MS = 100.0
_MOST_TO_RESTART_MS = 250.0


async def _leaks(folder: Path, secrets: int, seed: int) -> bool:
    began = time.monotonic()
    found = await plant(folder, secrets, seed, filtering="hold")
    seconds = time.monotonic() - began
    print(
        f"hold: {found.secrets:,} secrets in {found.answers:,} answers, "
        f"{found.wire_bytes / 1e6:.0f} MB on the wire, in {seconds:.0f} s"
    )
    for name, leaks in sorted(found.leaks.items()):
        print(f"  {name}: {leaks} found")
    return not any(found.leaks.values())


async def _costs(folder: Path, answers: int, seed: int) -> bool:
    off = await delays_of_prose(folder / "off", answers, filtering="off")
    hold = await delays_of_prose(folder / "hold", answers, filtering="hold")
    added = percentile(hold, 95) - percentile(off, 95)
    print(f"off: a piece of prose comes after {summary(off)}")
    print(f"hold: {summary(hold)}; p95 added {added:.0f} ms (at most {_MOST_ADDED_MS:.0f})")
    restarts = await times_to_restart(folder / "retract", answers * 5, seed)
    print(f"retract: a restart comes after {summary(restarts)} (at most {_MOST_TO_RESTART_MS:.0f})")
    return added <= _MOST_ADDED_MS and percentile(restarts, 95) <= _MOST_TO_RESTART_MS


async def _run(folder: Path, secrets: int, answers: int, seed: int) -> int:
    sealed = await _leaks(folder / "planted", secrets, seed)
    quick = await _costs(folder, answers, seed)
    return 0 if sealed and quick else 1


def main() -> int:
    """Returns the exit status: 1 if a secret got through, or filtering cost too much."""
    parser = argparse.ArgumentParser(prog="python -m tests.filtering", description=__doc__)
    parser.add_argument("--secrets", type=int, default=10_000)
    parser.add_argument("--answers", type=int, default=40, help="at once, to measure delays")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for run in ("planted", "off", "hold", "retract"):
            Path(name, run).mkdir()
        return asyncio.run(_run(Path(name), given.secrets, given.answers, given.seed))


if __name__ == "__main__":
    sys.exit(main())
