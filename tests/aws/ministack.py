"""A whole AWS account as ministack plays it, as a process of its own."""

from __future__ import annotations

import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.aws.child_process import ChildProcess
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.server_process import free_port

ACCOUNT = "111111111111"
_START_SECONDS = 30.0


@contextmanager
def ministack(folder: Path) -> Iterator[AwsEmulator]:
    """Run one on a free port of 127.0.0.1.

    Args:
        folder: for its log and its files.

    Raises:
        ProcessError: it did not start.
    """
    port = free_port()
    variables = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_REGION": "us-east-1",
        "S3_DATA_DIR": str(folder / "s3"),
        "TMPDIR": str(folder),
        # These two would listen on ports that are always the same.
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
    }
    process = ChildProcess(
        [sys.executable, "-m", "ministack"], dict(os.environ) | variables, folder / "ministack.log"
    )
    try:
        process.wait_until_accepting(port, _START_SECONDS)
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/_ministack/health", timeout=_START_SECONDS
        ):
            yield AwsEmulator(port, process.process)
    finally:
        process.stop()
