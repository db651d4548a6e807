"""CloudWatch as ministack plays it, as a process of its own.

Tried beside moto's server, which takes values with counts by storing every single one (six million for a busy minute),
answers any percentile with a 500, and mixes namespaces where a query has dimensions. ministack weighs values by their counts,
interpolates percentiles, and tells a metric by all of its dimensions. What it leaves out: a query's unit (it is compared here by
what `GetMetricStatistics` says was stored), the limits of a request, metric math, and treating missing data in alarms.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.aws_emulator import AwsEmulator
from tests.integration.server_process import free_port

_START_SECONDS = 30.0


@contextmanager
def cloudwatch_emulator(log: Path) -> Iterator[AwsEmulator]:
    """Run one on a free port of 127.0.0.1; `log` takes what it prints."""
    port = free_port()
    only_cloudwatch = {"SERVICES": "cloudwatch", "SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0"}
    environment = dict(os.environ) | {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port)} | only_cloudwatch
    command = [sys.executable, "-m", "ministack"]
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process:
        try:
            _wait_until_serving(port, process, log)
            yield AwsEmulator(port, process)
        finally:
            process.terminate()


def _wait_until_serving(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_ministack/health"):
                return
        except urllib.error.URLError:
            assert process.poll() is None, f"the emulator ended at its start:\n{log.read_text()}"
            assert time.monotonic() < give_up_at, f"the emulator did not start:\n{log.read_text()}"
            time.sleep(0.05)
