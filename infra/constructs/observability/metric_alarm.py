"""The alarm of a metric, as the catalogue and the canary's metrics describe theirs."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from evenflow.infra.constructs.observability.runbook_alarm import AlarmTopics, RunbookAlarm
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.metrics.metric_catalogue import Alarm, Metric, Urgency


def metric_alarm(
    scope: Construct,
    metric: Metric,
    alarm: Alarm,
    *,
    settings: EnvironmentSettings,
    topics: AlarmTopics,
    series: cloudwatch.IMetric,
    copy: str = "",
    within: str = "",
    urgency: Urgency | None = None,
) -> RunbookAlarm:
    """The alarm, with the runbook of the metric's name.

    Args:
        series: what is compared with the threshold.
        copy: behind the name, where a metric has two alarms.
        within: how fast a sudden drop is, in words.
        urgency: instead of the alarm's own.
    """
    return RunbookAlarm(
        scope,
        metric.name + copy,
        settings=settings,
        topics=topics,
        metric=series,
        meaning=(
            f"{metric.sentence}. Target: {metric.target}. Alarm: {alarm.text}"
            + (f" within {within}" if within else "")
        ),
        threshold=alarm.above,
        datapoints=alarm.datapoints,
        periods=alarm.minutes,
        silence=alarm.silence,
        silence_is_bad=alarm.silence_is_bad,
        urgency=urgency or alarm.urgency,
        runbook=metric.name,
    )
