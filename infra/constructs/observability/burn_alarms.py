"""Burn-rate alarms: how fast an error budget (a promise to readers) is used, over two windows."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from evenflow.infra.constructs.metrics import evenflow_metric, of_enough_cases
from evenflow.infra.constructs.observability.runbook_alarm import (
    AlarmTopics,
    RunbookAlarm,
    what_to_do,
)
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.metrics.metric_catalogue import (
    BURN_RATES,
    BurnRate,
    Promise,
    Statistic,
    Urgency,
)

_HOUR_MINUTES = 60


class BurnAlarm(Construct):
    """The alarm of one promise. It pages while both windows of any rate are above their threshold.

    An alarm has one period. So each window is an alarm of its own, which only sends a notice. A
    composite one sees them together, and pages.

    Attributes:
        windows: the alarms of the windows.
        composite: the alarm that pages.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        topics: AlarmTopics,
        promise: Promise,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings, self._topics, self._promise = settings, topics, promise
        self._name = f"burn.{promise.name}"
        pairs = [(self._long(rate), self._short(rate)) for rate in BURN_RATES]
        self.windows = [alarm for pair in pairs for alarm in pair]
        raised = cloudwatch.AlarmState.ALARM
        self.composite = cloudwatch.CompositeAlarm(
            self,
            "Burning",
            composite_alarm_name=f"{settings.prefix}-{self._name}",
            alarm_description=(
                f"{promise.metric.sentence}: it is promised that these are at most "
                f"{promise.allowed:g} % of a month, and they are many more. "
                f"{what_to_do(self._name, settings.alarms.runbook_base_url)}"
            ),
            alarm_rule=cloudwatch.AlarmRule.any_of(
                *(
                    cloudwatch.AlarmRule.all_of(
                        *(cloudwatch.AlarmRule.from_alarm(alarm, raised) for alarm in pair)
                    )
                    for pair in pairs
                )
            ),
        )
        for topic in (topics.notices, topics.pages):
            self.composite.add_alarm_action(actions.SnsAction(topic))
            self.composite.add_ok_action(actions.SnsAction(topic))

    def _long(self, rate: BurnRate) -> RunbookAlarm:
        """The long window: shows that it matters. It needs a minimum of cases."""
        promise, minutes = self._promise, rate.long_minutes
        share = of_enough_cases(
            promise.metric,
            self._settings,
            Statistic.AVERAGE,
            promise.least * minutes // _HOUR_MINUTES,
            period=Duration.minutes(minutes),
        )
        return self._alarm(rate, minutes, share)

    def _short(self, rate: BurnRate) -> RunbookAlarm:
        """The short window: shows that it still goes on."""
        minutes = rate.short_minutes
        share = evenflow_metric(
            self._promise.metric,
            self._settings,
            Statistic.AVERAGE,
            period=Duration.minutes(minutes),
        )
        return self._alarm(rate, minutes, share)

    def _alarm(self, rate: BurnRate, minutes: int, share: cloudwatch.IMetric) -> RunbookAlarm:
        threshold = rate.times * self._promise.allowed
        return RunbookAlarm(
            self,
            f"{self._name}-{minutes}-minutes",
            settings=self._settings,
            topics=self._topics,
            metric=share,
            meaning=(
                f"{self._promise.metric.name} over {minutes} minutes, {rate.times:g} times what is "
                f"promised. Alarm: > {threshold:g} %"
            ),
            threshold=threshold,
            datapoints=1,
            periods=1,
            silence="there was no such case",
            urgency=Urgency.WORKING_HOURS,
            runbook=self._name,
        )
