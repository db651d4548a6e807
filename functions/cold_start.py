"""Counts cold starts of a function."""

from __future__ import annotations

from aws_lambda_powertools.metrics import EphemeralMetrics
from aws_lambda_powertools.utilities.typing import LambdaContext


class ColdStart:
    """Writes Powertools' metric `ColdStart`, by `function_name`, at an environment's first call.

    Not by the decorator of `EphemeralMetrics`, which warns of calls that measure nothing.
    """

    def __init__(self, metrics: EphemeralMetrics) -> None:
        self._metrics = metrics
        self._is_over = False

    def note(self, context: LambdaContext) -> None:
        """The function is called."""
        if not self._is_over:
            self._is_over = True
            self._metrics.add_cold_start_metric(context)
