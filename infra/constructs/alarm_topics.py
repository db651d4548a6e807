"""Where alarms go: to whoever is on call, and to a record of every change."""

from __future__ import annotations

from aws_cdk import ArnFormat, RemovalPolicy, Stack
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
