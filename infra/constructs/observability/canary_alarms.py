"""Alarms on what the canary sees through the front door."""

from __future__ import annotations

from constructs import Construct

from evenflow.infra.constructs.metrics import evenflow_metric
from evenflow.infra.constructs.observability.metric_alarm import metric_alarm
from evenflow.infra.constructs.observability.runbook_alarm import AlarmTopics
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.metrics.canary_metrics import CANARY_METRICS


class CanaryAlarms(Construct):
    """An alarm for each of its metrics."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        topics: AlarmTopics,
    ) -> None:
        super().__init__(scope, construct_id)
        self.alarms = [
            metric_alarm(
                self,
                metric,
                metric.alarm,
                settings=settings,
                topics=topics,
                series=evenflow_metric(metric, settings, metric.alarm.statistic),
            )
            for metric in CANARY_METRICS
            if metric.alarm
        ]
