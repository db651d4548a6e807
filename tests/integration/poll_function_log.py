"""What the poll function writes into its log about a poll: its real code, loaded as Lambda loads
it.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

from evenflow.functions.poll_response.long_poll import PollResult
from evenflow.stream_core.log.response_log import LogSlice, ResponseState
from evenflow.stream_core.protocols.evenflow.long_poll import Polled
from tests.integration.aws_emulator import REGION
from tests.integration.lambda_function import LambdaFunction


class PollFunctionLog:
    """The log of the function of one environment. It calls nothing in AWS."""

    def __init__(self, environment: str) -> None:
        variables = {
            "AWS_DEFAULT_REGION": REGION,
            "EVENFLOW_EDGE_KEYS_SECRET": "edge-keys",
            "EVENFLOW_TOKEN_KEYS_SECRET": "keys",
            "EVENFLOW_RESPONSES_TABLE": "responses",
            "EVENFLOW_TENANTS_TABLE": "tenants",
            "EVENFLOW_METRICS_ENVIRONMENT": environment,
            "POWERTOOLS_SERVICE_NAME": "poll_response",
            "POWERTOOLS_METRICS_NAMESPACE": "Evenflow",
        }
        self._function = LambdaFunction("poll_response", variables).module

    def of(self, moment: int, *, late_ms: float, polls: int | None) -> str:
        """The line about a poll that was answered so late, at `moment` (seconds since the epoch,
        near now).

        Args:
            polls: of the whole response, None while it hasn't ended.
        """
        polled = Polled("r1", "m1", ResponseState.STREAMING, LogSlice((), -1, None))
        self._function.metrics.set_timestamp(moment * 1000)
        with redirect_stdout(StringIO()) as log:
            self._function._measure(PollResult(polled, late_ms, polls))
        return log.getvalue()
