"""What a start doesn't import: modules that few installations need, and that take it time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_AWS = ("aiobotocore", "boto3", "botocore")
_TELEMETRY = ("grpc", "opentelemetry")
_DOCUMENTS = "evenflow.stream_core.api_documents.openapi"
_HANDLER = "evenflow.fargate_handler"
_SETTINGS = (
    *("edge_keys_secret", "token_keys_secret", "tenant_keys_secret", "metrics_environment"),
    *("sessions_table", "tenants_table", "responses_table"),
)
_ENVIRONMENT = {
    **{f"EVENFLOW_{name.upper()}": "x" for name in _SETTINGS},
    "EVENFLOW_MODEL": "demo",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "POWERTOOLS_TRACE_DISABLED": "1",
}


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        ("evenflow.__main__", (*_AWS, *_TELEMETRY, "websockets", "evenflow.doctor.diagnosis")),
        (f"{_HANDLER}.__main__", (*_AWS, *_TELEMETRY, "detect_secrets", "websockets", _DOCUMENTS)),
        ("evenflow.stream_sqlite.writer", ("aiohttp", "uvloop", _HANDLER)),
        *(
            (
                f"evenflow.functions.{function}.handler",
                ("aiobotocore", "aiohttp", *_TELEMETRY, "websockets", _HANDLER, _DOCUMENTS),
            )
            for function in ("poll_response", "session_init")
        ),
    ],
)
def test_a_start_leaves_out_what_it_does_not_need(module: str, left_out: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(left_out) & set(done.stdout.split()) == set()
