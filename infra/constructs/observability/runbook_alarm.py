"""Alarms with a runbook, and the topics that receive them."""

from __future__ import annotations

import re
from functools import cached_property

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from evenflow.infra.assets.package_data import runbooks
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.metrics.metric_catalogue import Urgency

_FIRST_STEP = re.compile(r"^## Look first\n\n(.+?)\n\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


class NoFirstStepError(Exception):
    """A runbook lacks the section `Look first`."""


def what_to_do(name: str, base_url: str | None) -> str:
    """A link to the runbook, or its first step where runbooks have no URL.

    Args:
        name: the page's, without `.md`.
        base_url: the pages' folder, with a slash at its end.

    Raises:
        NoFirstStepError: the page has none.
    """
    if base_url is not None:
        return f"What to do: {base_url}{name}.md"
    found = _FIRST_STEP.search((runbooks() / f"{name}.md").read_text("utf-8"))
    if found is None:
        raise NoFirstStepError(f"docs/runbooks/{name}.md has no section `Look first`")
    step = _LINK.sub(r"\1", " ".join(found[1].split())).rstrip(".:")
    end = "" if step.endswith("?") else "."
    return f"Look first: {step}{end} Then: docs/runbooks/{name}.md"


class AlarmTopics(Construct):
    """The topics of alarms: `pages` for on-call, `notices` for every change.

    Every `RunbookAlarm` and composite alarm sends notices. Rollback alarms have no topic: they only
    stop a deployment.

    Only this environment's alarms may publish. The topics have a key of their own, since CloudWatch
    can't use SNS's.

    Args:
        prefix: the beginning of topics' and alarms' names. None: the environment's.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        prefix: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.prefix = prefix or settings.prefix
        self._alarms = settings.alarms
        self._key = kms.Key(
            self,
            "Key",
            alias=f"alias/{self.prefix}-alarms",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,  # messages stay in a topic for seconds only
        )
        self._key.add_to_resource_policy(
            self._for_alarms(["kms:Decrypt", "kms:GenerateDataKey*"], "*")
        )
        self.notices = self._topic("Notices", "notices", settings.alarms.notices_to)

    def let_budgets_publish(self) -> None:
        """Let AWS Budgets publish notices of this account's budgets."""
        stack = Stack.of(self)
        budgets = f"arn:{stack.partition}:budgets::{stack.account}:*"
        conditions = {
            "StringEquals": {"aws:SourceAccount": stack.account},
            "ArnLike": {"aws:SourceArn": budgets},
        }
        for add, actions_of, resource in (
            (self.notices.add_to_resource_policy, ["sns:Publish"], self.notices.topic_arn),
            (self._key.add_to_resource_policy, ["kms:Decrypt", "kms:GenerateDataKey*"], "*"),
        ):
            add(
                iam.PolicyStatement(
                    sid="BudgetsOfThisAccount",
                    principals=[iam.ServicePrincipal("budgets.amazonaws.com")],
                    actions=actions_of,
                    resources=[resource],
                    conditions=conditions,
                )
            )

    @cached_property
    def pages(self) -> sns.ITopic:
        """The topic of pages. It is made for the first alarm that pages."""
        own_topic = self._alarms.page_topic_arn
        if own_topic is None:
            return self._topic("Pages", "pages", self._alarms.page_email)
        return sns.Topic.from_topic_arn(self, "Pages", own_topic)

    def _topic(self, construct_id: str, name: str, email: str | None) -> sns.Topic:
        topic = sns.Topic(
            self,
            construct_id,
            topic_name=f"{self.prefix}-{name}",
            master_key=self._key,
            enforce_ssl=True,
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
            resource_name=f"{self.prefix}-*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        return iam.PolicyStatement(
            sid="AlarmsOfThisEnvironment",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=actions,
            resources=[resource],
            conditions={
                "StringEquals": {"aws:SourceAccount": stack.account},
                "ArnLike": {"aws:SourceArn": alarms},
            },
        )


_MISSING = {
    True: cloudwatch.TreatMissingData.BREACHING,
    False: cloudwatch.TreatMissingData.NOT_BREACHING,
}


class RunbookAlarm(cloudwatch.Alarm):
    """An alarm on one series, named `<topics.prefix>-<name>`, with a runbook in docs/runbooks/.

    Args:
        name: what is watched. It is also the runbook's name, unless `runbook` is set.
        meaning: what is measured, and when the alarm is raised: `p95 > 100 ms`.
        threshold, below: it is raised above the threshold, or under it with `below`.
        datapoints, periods: how many of how many periods must cross the threshold.
        silence: what a period without data means.
        silence_is_bad: whether a period without data counts as crossing the threshold.
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
            alarm_name=f"{topics.prefix}-{name}",
            alarm_description=f"{meaning}. No data means: {silence}; it {counts}. "
            f"{what_to_do(runbook or name, settings.alarms.runbook_base_url)}",
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
            if below
            else cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            datapoints_to_alarm=datapoints,
            evaluation_periods=periods,
            treat_missing_data=_MISSING[silence_is_bad],
        )
        # Percentiles of few values count as they are. With `ignore` an alarm would keep its state
        # while there are fewer than 200 values (for a p95): in a small environment it would never
        # be raised.
        self.urgency = urgency
        for topic in (
            (topics.notices, topics.pages) if urgency is Urgency.PAGE else (topics.notices,)
        ):
            self.add_alarm_action(actions.SnsAction(topic))
            self.add_ok_action(actions.SnsAction(topic))
