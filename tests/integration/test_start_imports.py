"""What a server's start doesn't import: modules that few installations need, and that take time.

For functions see `test_cold_start.py`."""

from __future__ import annotations

import subprocess
import sys

import pytest

_AWS = ("aiobotocore", "boto3", "botocore")
_TELEMETRY = ("grpc", "opentelemetry")
_DOCUMENTS = "evenflow.stream_core.api_documents.openapi"
_HANDLER = "evenflow.fargate_handler"


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        ("evenflow.__main__", (*_AWS, *_TELEMETRY, "websockets", "evenflow.doctor.diagnosis")),
        (f"{_HANDLER}.__main__", (*_AWS, *_TELEMETRY, "detect_secrets", "websockets", _DOCUMENTS)),
        ("evenflow.stream_sqlite.writer", ("aiohttp", "uvloop", _HANDLER)),
    ],
)
def test_a_start_leaves_out_what_it_does_not_need(module: str, left_out: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(left_out) & set(done.stdout.split()) == set()
