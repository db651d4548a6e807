"""What becomes of data when their stack is deleted."""

from __future__ import annotations

from aws_cdk import RemovalPolicy

from infra.settings import EnvironmentSettings


def removal_policy(settings: EnvironmentSettings) -> RemovalPolicy:
    """Kept or deleted, as the environment says. What a failed first deployment made goes in either case: its name would
    stand in the way of the next try.
    """
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if settings.data.keep else RemovalPolicy.DESTROY
