"""A process that was started with closed standard descriptors."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.clone import ROOT

_PROGRAM = """
import os, subprocess, sys
for number in map(int, sys.argv[2]):
    os.close(number)
{opening}
opened = os.open(sys.argv[1], os.O_RDONLY)
child = "import os; [os.fstat(number) for number in range(3)]"
sys.exit(opened < 3 or subprocess.call([sys.executable, "-c", child]))
"""
_OPENING = """
from evenflow.fargate_handler.runtime.standard_descriptors import open_standard_descriptors
open_standard_descriptors()
"""


def _status(program: str, closed: str) -> int:
    command = [sys.executable, "-c", program, __file__, closed]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, timeout=60, check=False
    ).returncode


@pytest.mark.parametrize("closed", ["", "0", "1", "2", "012"])
def test_no_other_file_gets_their_numbers_and_child_processes_have_them(closed: str) -> None:
    assert _status(_PROGRAM.format(opening=_OPENING), closed) == 0


def test_otherwise_the_next_file_is_standard_input() -> None:
    assert _status(_PROGRAM.format(opening=""), "0") == 1


@pytest.mark.parametrize(
    ("closed", "arguments"),
    [
        ("<&- >&- 2>&-", ["evenflow", "tenants", "list"]),
        ("<&- >&- 2>&-", ["evenflow.fargate_handler", "--help"]),
    ],
)
def test_a_command_ends_in_order_without_them(
    closed: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("EVENFLOW_STORE_PATH", f"{tmp_path}/evenflow.db")
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", *arguments]
    assert subprocess.run(shell, cwd=ROOT, timeout=60, check=False).returncode == 0
