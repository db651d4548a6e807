"""The harness' own processes, for its tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.aws.child_process import ChildProcess
from tests.integration.server_process import clean_environment, free_port

_START_SECONDS = 40.0

Start = Callable[[str], int]
"""Starts `tests.chaos.<name>` and returns its port."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes of the harness for one test."""
    started: list[ChildProcess] = []

    def start(module: str) -> int:
        port = free_port()
        command = [sys.executable, "-m", f"tests.chaos.{module}", str(port)]
        child = ChildProcess(command, clean_environment({}), tmp_path / f"{module}.log")
        started.append(child)
        child.wait_until_accepting(port, _START_SECONDS)
        return port

    yield start
    for child in started:
        child.stop()
