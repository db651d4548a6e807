"""The alarms of the metric catalogue and of the canary's metrics, and `users-are-hurting`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from evenflow.infra.constructs.metrics import evenflow_metric, of_enough_cases, sudden_drop
from evenflow.infra.constructs.observability.runbook_alarm import (
    AlarmTopics,
    RunbookAlarm,
    what_to_do,
)
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.metrics.canary_metrics import CANARY_METRICS
from evenflow.stream_core.metrics.metric_catalogue import (
    ACTIVE_CONNECTIONS,
    CATALOGUE,
    Alarm,
    Metric,
    Urgency,
)


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
    """Make the alarm, with the runbook of the metric's name.

    Args:
        series: the metric or expression that is compared with the threshold.
        copy: the name's suffix, where a metric has two alarms.
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


# A drop that takes several minutes never halves a minute's rate: a second alarm compares periods of
# this length.
_SLOWER = Duration.minutes(5)
_NEARLY_FULL = 0.95


class CatalogueAlarms(Construct):
    """An alarm for each metric that has one, and a five-minute copy of those on a sudden drop."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        topics: AlarmTopics,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        self._alarm = partial(metric_alarm, self, settings=settings, topics=topics)
        self.alarms = [
            alarm
            for metric in CATALOGUE
            if metric.alarm
            for alarm in self._alarms_of(metric, metric.alarm)
        ]

    def _alarms_of(self, metric: Metric, alarm: Alarm) -> list[RunbookAlarm]:
        if alarm.least:
            share = of_enough_cases(metric, self._settings, alarm.statistic, alarm.least)
            return [self._alarm(metric, alarm, series=share)]
        if not alarm.sudden_drop:
            series = evenflow_metric(metric, self._settings, alarm.statistic)
            return [self._alarm(metric, self._within_reach(metric, alarm), series=series)]
        return [
            # Tasks publish at different moments. An evaluation in between misses some of them,
            # which looks like a drop. So this alarm only sends a notice. Its copy pages.
            self._alarm(
                metric,
                alarm,
                series=sudden_drop(metric, self._settings),
                within="one minute",
                urgency=Urgency.WORKING_HOURS,
            ),
            self._alarm(
                metric,
                alarm,
                series=sudden_drop(metric, self._settings, _SLOWER),
                copy="-5-minutes",
                within="five minutes",
            ),
        ]

    def _within_reach(self, metric: Metric, alarm: Alarm) -> Alarm:
        """The alarm, at a number of connections that a task of this environment can have."""
        if metric is not ACTIVE_CONNECTIONS:
            return alarm
        most = self._settings.limits.connections_per_node
        return alarm if most > alarm.above else replace(alarm, above=round(_NEARLY_FULL * most))


USERS_ARE_HURTING = "users-are-hurting"


def users_hurting_alarm(
    scope: Construct,
    *,
    settings: EnvironmentSettings,
    topics: AlarmTopics,
    alarms: list[RunbookAlarm],
) -> cloudwatch.CompositeAlarm:
    """Make the alarm that is raised with any alarm that readers feel: an incident pages once.

    Args:
        alarms: all alarms. Those that readers do not feel are left out.
    """
    felt = [alarm for alarm in alarms if alarm.urgency is Urgency.FELT]
    composite = cloudwatch.CompositeAlarm(
        scope,
        "UsersAreHurting",
        composite_alarm_name=f"{settings.prefix}-{USERS_ARE_HURTING}",
        alarm_description=(
            "Readers of answers feel that something is wrong: at least one of the alarms below is "
            f"raised. {what_to_do(USERS_ARE_HURTING, settings.alarms.runbook_base_url)}"
        ),
        alarm_rule=cloudwatch.AlarmRule.any_of(
            *(cloudwatch.AlarmRule.from_alarm(alarm, cloudwatch.AlarmState.ALARM) for alarm in felt)
        ),
    )
    for topic in (topics.notices, topics.pages):
        composite.add_alarm_action(actions.SnsAction(topic))
        composite.add_ok_action(actions.SnsAction(topic))
    return composite


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
