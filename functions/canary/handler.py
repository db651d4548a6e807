"""The Lambda function that reads an answer through the public address each minute."""

from __future__ import annotations

import os

from aws_lambda_powertools import Logger, Tracer
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from evenflow.functions.cached_secret import CachedSecret
from evenflow.functions.canary.checks import CheckResult
from evenflow.functions.canary.front_door import FrontDoor
from evenflow.functions.canary.smoke import CanaryCaller, canary
from evenflow.functions.lambda_runtime import aws_client
from evenflow.functions.settings import CanaryFunctionSettings
from evenflow.stream_aws.keys import parse_tenant_keys
from evenflow.stream_core.metrics.canary_metrics import CANARY_FAILURES, CANARY_FIRST_TEXT

logger = Logger()
tracer = Tracer()

_settings = CanaryFunctionSettings.from_environment(os.environ)
_tenant_keys = CachedSecret(
    aws_client("secretsmanager"), _settings.tenant_keys_secret, parse_tenant_keys, logger
)
_front_door = FrontDoor(_settings.url)

# Without a service, which would be a second dimension. The alarms have only the environment.
metrics = EphemeralMetrics(namespace="Evenflow", service="")
metrics.set_default_dimensions(Environment=_settings.metrics_environment)


@logger.inject_lambda_context
@tracer.capture_lambda_handler(capture_response=False)
def handler(_event: object, _context: LambdaContext) -> None:
    """Read one answer, and publish its times over each transport."""
    key = _tenant_keys.get().get(_settings.tenant)
    caller = CanaryCaller(_front_door, _settings.question, _settings.tenant, key)
    findings = canary(caller)
    _publish(findings)
    for finding in findings:
        if finding.wrong is not None:
            logger.error(
                "the answer did not come as it should",
                extra={
                    "transport": finding.check.name,
                    "came": finding.wrong,
                    "look_at": finding.check.look_at,
                },
            )


def _publish(findings: list[CheckResult]) -> None:
    wrong = sum(finding.wrong is not None for finding in findings)
    metrics.add_metric(CANARY_FAILURES.name, MetricUnit.Count, wrong)
    for finding in findings:
        if finding.reading is not None:
            first_ms = 1000 * finding.reading.first_seconds
            metrics.add_metric(CANARY_FIRST_TEXT.name, MetricUnit.Milliseconds, first_ms)
    metrics.flush_metrics()
