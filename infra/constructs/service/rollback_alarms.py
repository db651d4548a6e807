"""What rolls a deployment of the handlers back: answers that go wrong, not only errors of HTTP."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from evenflow.infra.constructs.metrics import evenflow_metric
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.metrics.metric_catalogue import (
    DELIVERY_JITTER,
    RESPONSE_FAILURE_RATE,
    Metric,
)

_MINUTE = Duration.minutes(1)


class RollbackAlarms(Construct):
    """Three alarms. Each says that in two of three minutes readers got less than they should.

    A stream whose answer fails has the status 200 and no 5xx: of the new tasks' answers only the
    metrics of answers tell. Those have the thresholds of their alarms, and are sooner: a deployment
    is watched for minutes only. Handlers publish them, old ones and new ones together, so with few
    new tasks among many old ones the load balancer's count is what sees a task that refuses.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        target_group: elbv2.IApplicationTargetGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        errors = target_group.metrics.http_code_target(
            elbv2.HttpCodeTarget.TARGET_5XX_COUNT, period=_MINUTE, statistic=cloudwatch.Stats.SUM
        )
        self.alarms = [
            self._alarm("errors", errors, settings.handler.server_errors_per_minute, "answer 5xx"),
            self._of_metric("answers", RESPONSE_FAILURE_RATE, "let answers fail"),
            self._of_metric("evenness", DELIVERY_JITTER, "deliver unevenly"),
        ]

    @property
    def names(self) -> list[str]:
        """What the service is told to watch."""
        return [alarm.alarm_name for alarm in self.alarms]

    def _of_metric(self, name: str, metric: Metric, fault: str) -> cloudwatch.Alarm:
        assert metric.alarm is not None  # noqa: S101 - each of both has one
        watched = evenflow_metric(metric, self._settings, metric.alarm.statistic)
        return self._alarm(name, watched, metric.alarm.above, fault)

    def _alarm(
        self, name: str, metric: cloudwatch.IMetric, threshold: float, fault: str
    ) -> cloudwatch.Alarm:
        return cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._settings.prefix}-rollback-{name}",
            alarm_description=(
                f"Handlers {fault}: a deployment under way goes back to the one before."
            ),
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=3,
            datapoints_to_alarm=2,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
