"""The canary's Lambda function, loaded anew for each call: what it publishes and logs."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from tests.integration.aws_emulator import AwsEmulator
from tests.integration.chat_client import demo
from tests.integration.embedded_metric_format import put_metric_data_requests
from tests.integration.lambda_function import LambdaFunction

KEY = "key-of-the-public-tenant-0123456789"


class CanaryFunction:
    """The function of one environment, with the tenants' keys as its deployment keeps them."""

    def __init__(self, aws: AwsEmulator, environment: str) -> None:
        created = aws.client("secretsmanager").create_secret(
            Name=f"tenants-{uuid.uuid4().hex}", SecretString=json.dumps({"public": KEY})
        )
        self._variables = aws.environment | {
            "EVENFLOW_TENANT_KEYS_SECRET": created["ARN"],
            "EVENFLOW_TENANT": "public",
            "EVENFLOW_QUESTION": demo(tokens=20, gap_ms=20),
            "EVENFLOW_METRICS_ENVIRONMENT": environment,
            "POWERTOOLS_SERVICE_NAME": "canary",
            "POWERTOOLS_METRICS_NAMESPACE": "Evenflow",
        }

    async def call(self, url: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """What one call publishes, as a `PutMetricData` request, and the errors that it logs.

        Args:
            url: its front door.
        """
        with redirect_stdout(StringIO()) as log:
            function = LambdaFunction("canary", self._variables | {"EVENFLOW_URL": url})
            # The logger is one for the process, and has the output of the first test.
            function.module.logger.registered_handler.setStream(log)
            assert await asyncio.to_thread(function.invoke, {"source": "aws.events"}) is None
        assert KEY not in log.getvalue()
        lines = [json.loads(line) for line in log.getvalue().splitlines()]
        (metrics,) = (line for line in lines if "_aws" in line)
        (request,) = put_metric_data_requests(json.dumps(metrics))
        return request, [line for line in lines if line.get("level") == "ERROR"]
