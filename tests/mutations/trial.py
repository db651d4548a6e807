"""One fault in a copy of the tree, and the tests that look for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.importing_tests import ImportingTests
from tests.mutations.mutation import Mutation
from tests.mutations.source_tree import SourceTree

ROOT = Path(__file__).resolve().parents[2]
CODE = ("stream_core", "stream_aws", "stream_sqlite", "fargate_handler", "evenflow", "functions")
# What is installed and built is linked, not copied.
_LINKED = frozenset({".venv", ".build", "node_modules", "dist"})
# It sees that each edit finds its place, which it doesn't in a tree that has it already.
_NOT_OF_USE = "tests/unit/test_mutations.py"
_FAILED = re.compile(r"^(FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_NO_TESTS = 5


class TestsDidNotRun(Exception):
    """The tests ended without saying which of them failed."""

    __test__ = False


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a fault: the test that found it (None: it was lost), and how many seconds
    that took.
    """

    mutation: Mutation
    found_by: str | None
    seconds: float


class Trials:
    """Tries faults one after the other in `scratch`.

    Args:
        suite: the files and folders with all the tests.
        parallel: pytest's options for many tests at once.
    """

    def __init__(self, scratch: Path, suite: Sequence[str], parallel: Sequence[str]) -> None:
        self._tree = scratch / "tree"
        self._bytecode = scratch / "bytecode"
        self._suite = suite
        self._parallel = parallel
        self._tests = SourceTree(ROOT, ["tests"])
        self._importing = ImportingTests(ROOT, CODE, suite)

    def run(self, mutation: Mutation) -> Trial:
        """See whether the tests find a fault: first the one that found it last time, then those
        that import what it changes, then all.

        Raises:
            DoesNotApply, TestsDidNotRun.
        """
        begun = time.monotonic()
        _copy(self._tree)
        changed = mutation.apply(SourceTree(self._tree, CODE))
        found_by = self._first_to_find(mutation.test, changed)
        return Trial(mutation, found_by, time.monotonic() - begun)

    def _first_to_find(self, named: str, changed: Sequence[str]) -> str | None:
        for tests in (self._of_suite(named), *self._importing.nearest(changed)):
            if tests and (found_by := self._first_failure(tests)) is not None:
                return found_by
        return self._first_failure([*self._parallel, *self._suite])

    def _of_suite(self, name: str) -> list[str]:
        """The test of that name, if it is one of the suite."""
        function = name.rpartition(".")[2]
        return [
            f"{path}::{function}"
            for path in self._tests.files(name)
            if any(path.is_relative_to(place) for place in self._suite)
        ]

    def fails_without_a_fault(self, tests: Sequence[str]) -> str | None:
        """The first of these tests that fails in the tree as it is: it finds nothing.

        Raises:
            TestsDidNotRun: as said there.
        """
        _copy(self._tree)
        return self._first_failure(tests)

    def _first_failure(self, arguments: Sequence[str]) -> str | None:
        """The test that fails, None if all pass."""
        failed = self._pytest(arguments)
        if failed is not None and failed[1] == "ERROR":
            # What a test stands on did not come up: that may be the fault's doing, or a busy
            # machine's.
            failed = self._pytest([failed[2]])
        return failed[2] if failed is not None else None

    def _pytest(self, arguments: Sequence[str]) -> re.Match[str] | None:
        options = [
            "-x",
            "-q",
            "--no-header",
            "-rfE",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            f"--ignore={_NOT_OF_USE}",
        ]
        # Each copy is at the same place, so what doesn't change is compiled once.
        environment = os.environ | {"PYTHONPYCACHEPREFIX": str(self._bytecode)}
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        ran = subprocess.run(
            command, cwd=self._tree, env=environment, capture_output=True, text=True, check=False
        )
        failed = _FAILED.search(ran.stdout)
        if failed is None and ran.returncode not in (0, _NO_TESTS):
            said = ran.stdout[-2000:] + ran.stderr[-2000:]
            raise TestsDidNotRun(f"pytest ended with {ran.returncode} and names no test:\n{said}")
        return failed


def _copy(tree: Path) -> None:
    """A new copy of the files that git knows or would know, with what is installed beside them."""
    shutil.rmtree(tree, ignore_errors=True)
    for name in _listed("--cached", "--others"):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    for name in _listed("--others", "--ignored", "--directory"):
        if Path(name).name in _LINKED:
            (tree / name).symlink_to(ROOT / name)


def _listed(*options: str) -> list[str]:
    command = ["git", "ls-files", "-z", "--exclude-standard", *options]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name.rstrip("/") for name in listed.stdout.split("\0") if name]
