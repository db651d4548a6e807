"""The canary's Lambda function: what it publishes of an answer that comes, and of one that does
not.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from stream_core.metrics.canary_metrics import CANARY_FAILURES, CANARY_FIRST_TEXT
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.chat_client import demo
from tests.integration.conftest import Serve
from tests.integration.embedded_metric_format import put_metric_data_requests
from tests.integration.faulty_proxy import Fault, faulty_proxy
from tests.integration.lambda_function import LambdaFunction

KEY = "key-of-the-public-tenant-0123456789"


@pytest.fixture(scope="module")
def keys_secret(emulated_aws: AwsEmulator) -> str:
    """The tenants' keys, as the deployment keeps them."""
    created = emulated_aws.client("secretsmanager").create_secret(
        Name=f"tenants-{uuid.uuid4().hex}", SecretString=json.dumps({"public": KEY})
    )
    arn: str = created["ARN"]
    return arn


async def published(
    url: str, aws: AwsEmulator, keys_secret: str
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """What one call of the function publishes, by metric, and the errors that it logs."""
    variables = {
        "EVENFLOW_URL": url,
        "EVENFLOW_TENANT_KEYS_SECRET": keys_secret,
        "EVENFLOW_TENANT": "public",
        "EVENFLOW_QUESTION": demo(tokens=20, gap_ms=20),
        "EVENFLOW_METRICS_ENVIRONMENT": "staging",
        "POWERTOOLS_SERVICE_NAME": "canary",
        "POWERTOOLS_METRICS_NAMESPACE": "Evenflow",
    }
    with redirect_stdout(StringIO()) as log:
        function = LambdaFunction("canary", aws.environment | variables)
        # The logger is one for the process, and has the output of the first test.
        function.module.logger.registered_handler.setStream(log)
        assert await asyncio.to_thread(function.invoke, {"source": "aws.events"}) is None
    assert KEY not in log.getvalue()
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    (metrics,) = (line for line in lines if "_aws" in line)
    (request,) = put_metric_data_requests(json.dumps(metrics))
    assert request["Namespace"] == "Evenflow"
    data = {datum["MetricName"]: datum for datum in request["MetricData"]}
    for datum in data.values():
        assert datum["Dimensions"] == [{"Name": "Environment", "Value": "staging"}]
    return data, [line for line in lines if line.get("level") == "ERROR"]


async def test_a_whole_answer_is_no_failure_and_six_first_texts(
    serve: Serve, emulated_aws: AwsEmulator, keys_secret: str
) -> None:
    server = await serve(tenant_keys=json.dumps({"public": KEY}))
    data, errors = await published(server.http_url, emulated_aws, keys_secret)
    assert data[CANARY_FAILURES.name]["Values"] == [0.0]
    first = data[CANARY_FIRST_TEXT.name]
    assert len(first["Values"]) == 6
    assert all(0 < value < 10_000 for value in first["Values"])
    assert errors == []


async def test_a_transport_that_fails_is_counted_and_said(
    serve: Serve, emulated_aws: AwsEmulator, keys_secret: str
) -> None:
    server = await serve(tenant_keys=json.dumps({"public": KEY}))
    async with faulty_proxy(server.port, Fault.DROPS_UPGRADES) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        data, errors = await published(url, emulated_aws, keys_secret)
    assert data[CANARY_FAILURES.name]["Values"] == [3.0]
    assert len(data[CANARY_FIRST_TEXT.name]["Values"]) == 3
    assert [error["transport"] for error in errors] == [
        "WebSocket v1",
        "WebSocket v1 compact",
        "realtime",
    ]
    assert "Upgrade" in errors[0]["look_at"]


async def test_an_answer_that_nobody_accepts_is_a_failure_without_a_first_text(
    serve: Serve, emulated_aws: AwsEmulator, keys_secret: str
) -> None:
    server = await serve(tenant_keys=json.dumps({"public": f"{KEY}-another"}))
    data, (error,) = await published(server.http_url, emulated_aws, keys_secret)
    assert data[CANARY_FAILURES.name]["Values"] == [1.0]
    assert CANARY_FIRST_TEXT.name not in data
    assert (error["transport"], "tenant_key_invalid" in error["came"]) == ("a message", True)
