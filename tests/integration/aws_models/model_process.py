"""The model server as a process of its own, so that it shares no event loop with whoever calls
it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.aws_models.signature import Credentials
from tests.integration.server_process import ROOT, free_port

_START_SECONDS = 40.0


@dataclass(frozen=True)
class ModelProcess:
    """A running one."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point any SDK at it."""
        return Credentials().environment(self.url)


@contextmanager
def model_process(log: Path) -> Iterator[ModelProcess]:
    """Run one; what it prints goes to `log`."""
    port = free_port()
    command = [sys.executable, "-m", "tests.integration.aws_models", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        give_up_at = time.monotonic() + _START_SECONDS
        while "serving" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < give_up_at, log.read_text()
            time.sleep(0.02)
        yield ModelProcess(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(10)
    assert "Traceback" not in log.read_text(), log.read_text()
