"""The emulator as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiobotocore.session import AioSession

from stream_aws.dynamodb import client_config
from tests.integration.aws_emulator import REGION, AwsEmulator
from tests.integration.server_process import ROOT, free_port

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0


class DynamoDBEmulator(AwsEmulator):
    """A running one. It has DynamoDB only: `create_tables` makes the three tables, `client` is for "dynamodb"."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        super().__init__(port, process)
        self.endpoint = f"http://127.0.0.1:{port}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a process that should call this DynamoDB; its calls of other services go where they went."""
        return {
            "AWS_ENDPOINT_URL_DYNAMODB": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def asynchronous_client(self, sdk: AioSession) -> Any:
        """A client of it as the handler makes one; for `async with`."""
        return sdk.create_client(
            "dynamodb",
            config=client_config(connections=32),
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    def set_faults(self, **faults: Any) -> None:
        """Put these faults in force instead of any others; none ends them all. See `tests.dynamodb_emulator.faults.Faults`."""
        self._ask("/_faults", json.dumps(faults).encode())

    def counts(self) -> Counter[str]:
        """Requests until now, by operation."""
        return Counter(self._ask("/_counts"))

    def wait_until_serving(self) -> None:
        """Return when it answers."""
        give_up_at = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.counts()
            except OSError:
                assert self.process.poll() is None, "the emulator ended at its start"
                assert time.monotonic() < give_up_at, "the emulator did not start"
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """End it, and all that it keeps."""
        self.process.terminate()
        self.process.wait(_STOP_SECONDS)

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        with urllib.request.urlopen(self.endpoint + path, body, timeout=_STOP_SECONDS) as answer:
            return json.load(answer)


def start_dynamodb_emulator(log: Path, port: int | None = None) -> DynamoDBEmulator:
    """Start one, on this port or on a free one; `log` takes what it prints. Whoever starts it stops it."""
    port = free_port() if port is None else port
    command = [sys.executable, "-m", "tests.dynamodb_emulator", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    emulator = DynamoDBEmulator(port, process)
    try:
        emulator.wait_until_serving()
    except BaseException:
        process.kill()
        raise
    return emulator


@contextmanager
def dynamodb_emulator(log: Path, port: int | None = None) -> Iterator[DynamoDBEmulator]:
    """The same, for as long as the block lasts."""
    emulator = start_dynamodb_emulator(log, port)
    try:
        yield emulator
    finally:
        emulator.stop()
    assert "Traceback" not in log.read_text(), f"the emulator failed:\n{log.read_text()}"
