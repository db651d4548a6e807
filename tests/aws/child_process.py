"""A process that we started: what it prints goes to a file, and it is ended by its handle."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.integration.server_process import ROOT

_STOP_SECONDS = 10.0


class ProcessError(Exception):
    """It ended when it should serve, or never came to it. The message has what it printed."""


class ChildProcess:
    """One process.

    Args:
        environment: all of its variables.
        log: the file that takes what it prints.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._name = " ".join(command[:3])
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=output, stderr=output
            )

    def wait_until_printed(self, text: str, seconds: float) -> Self:
        """Return when it has printed `text`.

        Raises:
            ProcessError: it ended, or took longer than `seconds`.
        """
        return self._wait_until(lambda: text in self.log, seconds)

    def wait_until_accepting(self, port: int, seconds: float) -> Self:
        """Return when a connection to this port of 127.0.0.1 is accepted.

        Raises:
            ProcessError: it ended, or took longer than `seconds`.
        """

        def accepted() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        return self._wait_until(accepted, seconds)

    @property
    def log(self) -> str:
        """What it has printed."""
        return self._log.read_text(errors="replace")

    def _wait_until(self, condition: Callable[[], bool], seconds: float) -> Self:
        give_up_at = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None:
                raise ProcessError(f"{self._name} ended at its start:\n{self.log}")
            if time.monotonic() > give_up_at:
                raise ProcessError(f"{self._name} did not start within {seconds:g} s:\n{self.log}")
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
