"""The queue of dead letters: messages that no task could answer."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
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
