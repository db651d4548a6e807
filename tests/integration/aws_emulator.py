"""An AWS that runs here: moto's server as a process of its own, called over HTTP by the real SDK
clients.
"""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from evenflow.stream_aws.tables import (
    LEDGER,
    RESPONSES,
    SESSIONS,
    TENANTS,
    UNFINISHED_INDEX,
    UNFINISHED_KEY,
    TableKeys,
    TableNames,
)
from tests.integration.server_process import free_port

REGION = "us-east-1"
CREDENTIALS = {
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Variables of a process whose calls no emulator checks the signature of."""

SIGNED_BY = {
    "region_name": REGION,
    "aws_access_key_id": "testing",
    "aws_secret_access_key": "testing",
}
"""The same for a client of the SDK."""

_START_SECONDS = 30.0


class AwsEmulator:
    """A running emulator. `environment` is what points any SDK at it."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.process = process
        # `localhost`, not the address: the CDK's template URL matches the name.
        self.endpoint = f"http://localhost:{port}"
        self._clients: dict[str, Any] = {}

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a process that should call this AWS."""
        return {"AWS_ENDPOINT_URL": self.endpoint, **CREDENTIALS}

    def client(self, service: str) -> Any:
        """The boto3 client of it for this service."""
        if service not in self._clients:
            self._clients[service] = boto3.client(service, endpoint_url=self.endpoint, **SIGNED_BY)
        return self._clients[service]

    def create_tables(self, prefix: str) -> TableNames:
        """The four tables, empty, named after `prefix`."""
        names = table_names(prefix)
        for request in table_requests(names):
            self.client("dynamodb").create_table(**request)
        return names


def table_names(prefix: str) -> TableNames:
    """The four tables, named after `prefix`."""
    return TableNames(*(f"{prefix}-{it}" for it in ("sessions", "ledger", "responses", "tenants")))


def table_requests(names: TableNames) -> list[dict[str, Any]]:
    """What makes them: a CreateTable each."""
    return [
        _table_request(names.sessions, SESSIONS, {}),
        _table_request(names.ledger, LEDGER, {}),
        _table_request(names.responses, RESPONSES, {UNFINISHED_INDEX: UNFINISHED_KEY}),
        _table_request(str(names.tenants), TENANTS, {}),
    ]


@contextmanager
def aws_emulator(log: Path) -> Iterator[AwsEmulator]:
    """Run one on a free port; `log` takes what it prints."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as process,
    ):
        try:
            _wait_until_serving(port, process, log)
            yield AwsEmulator(port, process)
        finally:
            process.kill()  # it has nothing to keep, and takes seconds to leave in order


def _wait_until_serving(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/"):
                return
        except urllib.error.URLError:
            assert process.poll() is None, f"the emulator ended at its start:\n{log.read_text()}"
            assert time.monotonic() < give_up_at, f"the emulator did not start:\n{log.read_text()}"
            time.sleep(0.05)


def _table_request(name: str, keys: TableKeys, indexes: Mapping[str, str]) -> dict[str, Any]:
    """`indexes`: name → partition key, of those that hold the keys alone."""
    schema = [(keys.partition, "HASH"), *([(keys.sort, "RANGE")] if keys.sort else [])]
    attributes = [*(attribute for attribute, _ in schema), *indexes.values()]
    global_indexes = [
        {
            "IndexName": index,
            "KeySchema": [{"AttributeName": partition, "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
        for index, partition in indexes.items()
    ]
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": attribute, "KeyType": kind} for attribute, kind in schema],
        "AttributeDefinitions": [
            {"AttributeName": attribute, "AttributeType": "S"} for attribute in attributes
        ],
        **({"GlobalSecondaryIndexes": global_indexes} if global_indexes else {}),
    }
