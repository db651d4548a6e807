"""A log group that forgets."""

from __future__ import annotations

from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.constructs.removal_policy import removal_policy
from infra.settings import EnvironmentSettings

_RETENTION = {
    7: logs.RetentionDays.ONE_WEEK,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}


def log_group(scope: Construct, construct_id: str, name: str, settings: EnvironmentSettings) -> logs.LogGroup:
    """A log group with the environment's retention; it is kept as long as the environment's data are."""
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention=_RETENTION[settings.log_retention_days],
        removal_policy=removal_policy(settings),
    )
