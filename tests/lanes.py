"""`python -m tests.lanes NAME… -- NAME…`: targets of the Makefile side by side.

First those that keep two processors busy or have limits of time, one for two processors: LiteLLM's
proxy didn't start in time where two ran on two. Then those that only compute, mostly in one
process, one for each processor. Says what runs and how long it took. What a lane prints is in
`.build/lanes`, and is shown where it fails; the others go on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

_LOGS = Path(__file__).resolve().parents[1] / ".build" / "lanes"


@dataclass(frozen=True)
class Ended:
    """A lane that has run, and for how many seconds."""

    name: str
    seconds: float
    passed: bool


class Lanes:
    """Runs each with `make`.

    Args:
        logs: the folder for what they print.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._began = time.monotonic()

    def run(self, name: str) -> Ended:
        """Run one to its end."""
        began, log = time.monotonic(), self._logs / f"{name}.log"
        self._say(f"{name} …")
        with log.open("wb") as output:
            done = subprocess.run(
                ["make", "--no-print-directory", name],
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        ended = Ended(name, time.monotonic() - began, done.returncode == 0)
        printed = "" if ended.passed else f":\n{log.read_text('utf-8', 'replace')}"
        self._say(
            f"{name} {'passed' if ended.passed else 'FAILED'} after {ended.seconds:.0f} s{printed}"
        )
        return ended

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)


def main(arguments: Sequence[str], logs: Path = _LOGS) -> int:
    """Run them, the first ones first; returns the exit status."""
    logs.mkdir(parents=True, exist_ok=True)
    lanes, ended = Lanes(logs), list[Ended]()
    names, processors = list(arguments), os.cpu_count() or 1
    dashes = names.index("--") if "--" in names else len(names)
    for group, most in (
        (names[:dashes], max(1, processors // 2)),
        (names[dashes + 1 :], processors),
    ):
        with ThreadPoolExecutor(most) as at_once:
            ended += at_once.map(lanes.run, group)
    failed = [lane.name for lane in ended if not lane.passed]
    print(f"failed: {', '.join(failed)}" if failed else f"all {len(ended)} lanes passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
