"""Alarms on what the canary sees through the front door."""

from __future__ import annotations

from constructs import Construct

from infra.constructs.metrics import evenflow_metric
from infra.constructs.observability.runbook_alarm import AlarmTopics, RunbookAlarm, Urgency
from infra.settings import EnvironmentSettings
from stream_core.metrics.canary_metrics import CANARY_METRICS


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
            RunbookAlarm(
                self,
                metric.name,
                settings=settings,
                topics=topics,
                metric=evenflow_metric(metric, settings, metric.alarm.statistic),
                meaning=(
                    f"{metric.meaning[:1].upper()}{metric.meaning[1:]}. Target: {metric.target}. "
                    f"Alarm: {metric.alarm.text}"
                ),
                threshold=metric.alarm.above,
                datapoints=metric.alarm.datapoints,
                periods=metric.alarm.minutes,
                silence=metric.alarm.silence,
                silence_is_bad=metric.alarm.silence_is_bad,
                urgency=Urgency.FELT if metric.alarm.felt_by_readers else Urgency.WORKING_HOURS,
            )
            for metric in CANARY_METRICS
            if metric.alarm
        ]
