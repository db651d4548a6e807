"""The canary's Lambda function: what it publishes of an answer that comes, and of one that does
not.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from evenflow.stream_core.metrics.canary_metrics import CANARY_FAILURES, CANARY_FIRST_TEXT
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.canary_function import KEY, CanaryFunction
from tests.integration.conftest import Serve
from tests.integration.faulty_proxy import Fault, faulty_proxy


@pytest.fixture(scope="module")
def canary(emulated_aws: AwsEmulator) -> CanaryFunction:
    return CanaryFunction(emulated_aws, "staging")


async def published(
    url: str, canary: CanaryFunction
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """What one call of the function publishes, by metric, and the errors that it logs."""
    request, errors = await canary.call(url)
    assert request["Namespace"] == "Evenflow"
    data = {datum["MetricName"]: datum for datum in request["MetricData"]}
    for datum in data.values():
        assert datum["Dimensions"] == [{"Name": "Environment", "Value": "staging"}]
    return data, errors


async def test_a_whole_answer_is_no_failure_and_six_first_texts(
    serve: Serve, canary: CanaryFunction
) -> None:
    server = await serve(tenant_keys=json.dumps({"public": KEY}))
    data, errors = await published(server.http_url, canary)
    assert data[CANARY_FAILURES.name]["Values"] == [0.0]
    first = data[CANARY_FIRST_TEXT.name]
    assert len(first["Values"]) == 6
    assert all(0 < value < 10_000 for value in first["Values"])
    assert errors == []


async def test_a_transport_that_fails_is_counted_and_said(
    serve: Serve, canary: CanaryFunction
) -> None:
    server = await serve(tenant_keys=json.dumps({"public": KEY}))
    async with faulty_proxy(server.port, Fault.DROPS_UPGRADES) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        data, errors = await published(url, canary)
    assert data[CANARY_FAILURES.name]["Values"] == [3.0]
    assert len(data[CANARY_FIRST_TEXT.name]["Values"]) == 3
    assert [error["transport"] for error in errors] == [
        "WebSocket v1",
        "WebSocket v1 compact",
        "realtime",
    ]
    assert "Upgrade" in errors[0]["look_at"]


async def test_an_answer_that_nobody_accepts_is_a_failure_without_a_first_text(
    serve: Serve, canary: CanaryFunction
) -> None:
    server = await serve(tenant_keys=json.dumps({"public": f"{KEY}-another"}))
    data, (error,) = await published(server.http_url, canary)
    assert data[CANARY_FAILURES.name]["Values"] == [1.0]
    assert CANARY_FIRST_TEXT.name not in data
    assert (error["transport"], "tenant_key_invalid" in error["came"]) == ("a message", True)
