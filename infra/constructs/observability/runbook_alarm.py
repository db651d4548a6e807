"""An alarm that says what it means and what to do, and where alarms go."""

from __future__ import annotations

from enum import Enum, auto

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.settings import EnvironmentSettings


class AlarmTopics(Construct):
    """`pages` wakes somebody, `notices` records every change of every alarm. Encrypted; only this environment's alarms publish.

    CloudWatch cannot use AWS's own key of SNS, so the topics have one of ours.
    """

    def __init__(self, scope: Construct, construct_id: str, *, settings: EnvironmentSettings) -> None:
        super().__init__(scope, construct_id)
        self._prefix = settings.prefix
        self._key = kms.Key(
            self,
            "Key",
            alias=f"alias/{settings.prefix}-alarms",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,  # a message lives in the topic for seconds
        )
        self._key.add_to_resource_policy(self._for_alarms(["kms:Decrypt", "kms:GenerateDataKey*"], "*"))
        self.pages = self._topic("Pages", "pages", settings.alarms.page_email)
        self.notices = self._topic("Notices", "notices", settings.alarms.notice_email)

    def _topic(self, construct_id: str, name: str, email: str | None) -> sns.Topic:
        topic = sns.Topic(
            self, construct_id, topic_name=f"{self._prefix}-{name}", master_key=self._key, enforce_ssl=True
        )
        topic.add_to_resource_policy(self._for_alarms(["sns:Publish"], topic.topic_arn))
        if email is not None:
            topic.add_subscription(subscriptions.EmailSubscription(email))
        return topic

    def _for_alarms(self, actions: list[str], resource: str) -> iam.PolicyStatement:
        stack = Stack.of(self)
        alarms = stack.format_arn(
            service="cloudwatch",
            resource="alarm",
            resource_name=f"{self._prefix}-*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        return iam.PolicyStatement(
            sid="AlarmsOfThisEnvironment",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=actions,
            resources=[resource],
            conditions={"StringEquals": {"aws:SourceAccount": stack.account}, "ArnLike": {"aws:SourceArn": alarms}},
        )


_MISSING = {True: cloudwatch.TreatMissingData.BREACHING, False: cloudwatch.TreatMissingData.NOT_BREACHING}


class Urgency(Enum):
    """Who hears of an alarm besides the record of notices."""

    FELT = auto()  # readers feel it: the one alarm "users are hurting" wakes somebody, however many of these there are
    PAGE = auto()  # readers do not feel it yet, or we would not see it if they did: wakes somebody itself
    WORKING_HOURS = auto()  # can wait for the morning: recorded only


class RunbookAlarm(cloudwatch.Alarm):
    """An alarm on one series, named `evenflow-<env>-<name>`, with a runbook in docs/runbooks/.

    Args:
        name: of what is watched; also the runbook's, unless `runbook` names another.
        meaning: what is measured, and what the alarm's words are: `p95 > 100 ms`.
        threshold, below: the alarm is raised above the threshold or, with `below`, under it.
        datapoints, periods: so many of so many periods.
        silence, silence_is_bad: what a period without data means, and whether it counts as crossing the threshold.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        settings: EnvironmentSettings,
        topics: AlarmTopics,
        metric: cloudwatch.IMetric,
        meaning: str,
        threshold: float,
        silence: str,
        urgency: Urgency,
        datapoints: int = 3,
        periods: int = 5,
        silence_is_bad: bool = False,
        below: bool = False,
        runbook: str | None = None,
    ) -> None:
        counts = "counts as crossing the threshold" if silence_is_bad else "counts as in order"
        super().__init__(
            scope,
            name,
            alarm_name=f"{settings.prefix}-{name}",
            alarm_description=f"{meaning}. No data means: {silence}; it {counts}. "
            f"What to do: {settings.alarms.runbook_base_url}{runbook or name}.md",
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
            if below
            else cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            datapoints_to_alarm=datapoints,
            evaluation_periods=periods,
            treat_missing_data=_MISSING[silence_is_bad],
        )
        # Percentiles of few values count as they are. With `ignore` an alarm would stay as it is while there are fewer than 200
        # values (of a p95): never raised in a small environment, and once raised not over while traffic is thin.
        self.urgency = urgency
        for topic in (topics.notices, topics.pages) if urgency is Urgency.PAGE else (topics.notices,):
            self.add_alarm_action(actions.SnsAction(topic))
            self.add_ok_action(actions.SnsAction(topic))
