"""The same modules run compiled and interpreted. `make test-compiled` runs this suite compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import evenflow

_PRINT_FILE = "from evenflow.stream_core.log import response_log; print(response_log.__file__)"


def test_the_hot_modules_run_compiled_where_they_were_and_interpreted_on_request() -> None:
    compiled = find_spec("evenflow__mypyc") is not None
    assert _suffix_of_the_log({}) == (".so" if compiled else ".py")
    assert _suffix_of_the_log({"EVENFLOW_COMPILED": "0"}) == ".py"


def _suffix_of_the_log(variables: dict[str, str]) -> str:
    package = Path(evenflow.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PRINT_FILE],
        env={**os.environ, "PYTHONPATH": str(package), **variables},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return Path(done.stdout.strip()).suffix
