"""What handlers of functions share: boto3 clients, and the metric of cold starts."""

from __future__ import annotations

from typing import Any

import boto3
from aws_lambda_powertools.metrics import EphemeralMetrics
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config


def aws_client(service: str, attempts: int = 2, read_seconds: float = 2) -> Any:
    """A client for the environment's region.

    The defaults are for calls that delay an answer: an attempt takes 3 s at most.
    """
    retries = {"mode": "standard", "total_max_attempts": attempts}
    config = Config(connect_timeout=1, read_timeout=read_seconds, retries=retries)
    return boto3.client(service, config=config)


class ColdStart:
    """Writes Powertools' metric `ColdStart`, by `function_name`, at an environment's first call.

    Not by the decorator of `EphemeralMetrics`, which warns of calls that measure nothing.
    """

    def __init__(self, metrics: EphemeralMetrics) -> None:
        self._metrics = metrics
        self._is_over = False

    def record_call(self, context: LambdaContext) -> None:
        """Record a call. Only the first one is a cold start."""
        if not self._is_over:
            self._is_over = True
            self._metrics.add_cold_start_metric(context)
