"""Runs a backend of `examples/`, or one that a test makes of it, under uvicorn."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.server_process import ROOT, free_port
from tests.integration.stock_clients.clients import python_of

_START_SECONDS = 40.0


@contextmanager
def running_backend(module: str, log: Path) -> Iterator[str]:
    """Serve `module:app` on a free port; gives its address, up to `/v1`."""
    port = free_port()
    command = [str(python_of("clients")), "-m", "uvicorn", f"{module}:app", "--port", str(port)]
    with log.open("wb") as written:
        process = subprocess.Popen(command, cwd=ROOT, stdout=written, stderr=written)
        try:
            _wait_until_serving(f"http://127.0.0.1:{port}/docs", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(20)


def _wait_until_serving(url: str, log: Path) -> None:
    give_up_at = time.monotonic() + _START_SECONDS
    while True:
        try:
            urllib.request.urlopen(url).close()
        except OSError:
            assert time.monotonic() < give_up_at, log.read_text()
            time.sleep(0.05)
        else:
            return
