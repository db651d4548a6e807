"""Counts the machine instructions of the core's workload, which other programs do not change."""

import gc
import os
import re
import shutil
import subprocess
import sys
from tempfile import TemporaryDirectory

from bench import core_cost

MODULE = "bench.instructions"
COLLECTED = re.compile(r"Collected : (\d+)")
TIMEOUT_SECONDS = 900  # it takes 30 on a processor of its own
# The order in sets, and with it the number of instructions, depends on it.
ENVIRONMENT = {"PYTHONHASHSEED": "0"}


def missing() -> str | None:
    """What isn't installed. None: nothing."""
    return None if shutil.which("valgrind") else "apt-get install valgrind"


def per_token() -> float:
    """Instructions of the workload for each of its tokens, counted in a process of its own.

    Raises:
        RuntimeError: Valgrind counted nothing.
    """
    with TemporaryDirectory() as folder:
        counted = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
                f"--callgrind-out-file={folder}/counted",
                *(sys.executable, "-m", MODULE),
            ],
            env=os.environ | ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    collected = COLLECTED.search(counted.stderr)
    if counted.returncode or collected is None or not int(collected[1]):
        raise RuntimeError(f"valgrind counted nothing:\n{counted.stdout}{counted.stderr}")
    return int(collected[1]) / int(counted.stdout.split()[-1])


def _count() -> None:
    """Run the workload in this process while Valgrind counts, and print its tokens."""
    gc.disable()
    core_cost.run_core()  # warms it up
    _switch("on")
    tokens = core_cost.run_core()
    _switch("off")
    print(tokens)


def _switch(state: str) -> None:
    command = ["callgrind_control", "-i", state, str(os.getpid())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    _count()
