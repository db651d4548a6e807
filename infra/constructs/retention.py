"""How long logs are kept, and whether data survive the deletion of their stack."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from evenflow.infra.settings.environment_settings import EnvironmentSettings, LogRetentionDays


def removal_policy(settings: EnvironmentSettings) -> RemovalPolicy:
    """Whether data survive the deletion of their stack.

    Resources of a failed first deployment are always deleted: their names would block the next one.
    """
    return _removal_policy(settings.data.keep)


def _removal_policy(keep: bool) -> RemovalPolicy:
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if keep else RemovalPolicy.DESTROY


_RETENTION = {
    7: logs.RetentionDays.ONE_WEEK,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}


def log_group(
    scope: Construct, construct_id: str, name: str, settings: EnvironmentSettings
) -> logs.LogGroup:
    """A log group with the environment's retention. It survives its stack if the data do."""
    days, keep = settings.log_retention_days, settings.data.keep
    return log_group_of_days(scope, construct_id, name, days=days, keep=keep)


def log_group_of_days(
    scope: Construct, construct_id: str, name: str, *, days: LogRetentionDays, keep: bool
) -> logs.LogGroup:
    """A log group for constructs without an environment's settings."""
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention=_RETENTION[days],
        removal_policy=_removal_policy(keep),
    )
