"""The stored data: tables, secrets, buckets and the queue of dead letters."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.data.buckets import access_log_bucket, request_bucket, usage_bucket
from evenflow.infra.constructs.data.keys import KeySecrets, data_key
from evenflow.infra.constructs.data.tables import OwnTables, Tables
from evenflow.infra.constructs.retention import removal_policy
from evenflow.infra.settings.environment_settings import EnvironmentSettings


def dead_letter_queue(
    scope: Construct, construct_id: str, *, settings: EnvironmentSettings, key: kms.IKey | None
) -> sqs.Queue:
    """An encrypted queue that keeps letters for 14 days, SQS's maximum. Letters have no texts."""
    queue = sqs.Queue(
        scope,
        construct_id,
        queue_name=dead_letter_queue_name(settings),
        encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
        encryption_master_key=key,
        enforce_ssl=True,
        retention_period=Duration.days(14),
        removal_policy=removal_policy(settings),
    )
    acknowledge(
        queue,
        "SQS3",
        "it is the queue of dead letters itself; what cannot be read from it waits there",
    )
    return queue


def dead_letter_queue_name(settings: EnvironmentSettings) -> str:
    """The queue's name, which alarms, graphs and `evenflow.stream_aws.redrive` use."""
    return f"{settings.prefix}-dead-letters"


class Data(Construct):
    """The resources that outlive a deployment.

    Args:
        tables: existing tables. None: new ones.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        tables: Tables | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.key = data_key(self, "Key", settings) if settings.data.customer_key else None
        # The key for new data. Roles may use an existing key in any case.
        key = self.key if settings.data.customer_key is True else None
        self.tables = tables or OwnTables(self, "Tables", settings=settings, key=key).tables
        self.dead_letters = dead_letter_queue(self, "DeadLetters", settings=settings, key=key)
        self.secrets = KeySecrets(self, "Secrets", settings=settings, key=key)
        self.access_logs = access_log_bucket(self, "AccessLogs", settings)
        self.requests = request_bucket(
            self, "Requests", settings=settings, key=key, access_logs=self.access_logs
        )
        self.usage = usage_bucket(
            self, "Usage", settings=settings, key=key, access_logs=self.access_logs
        )
