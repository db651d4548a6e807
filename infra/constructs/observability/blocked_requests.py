"""The alarm on requests that the web ACL blocks."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from evenflow.infra.constructs.metrics import MINUTE
from evenflow.infra.constructs.observability.runbook_alarm import AlarmTopics, RunbookAlarm
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.stack_settings import FirewallSettings
from evenflow.stream_core.metrics.metric_catalogue import Urgency


def blocked_requests(settings: EnvironmentSettings, rule: str = "ALL") -> cloudwatch.Metric:
    """What the web ACL blocked in a minute, by all rules or by one.

    Metrics of CloudFront's web ACLs are in us-east-1, and have no dimension for the region.
    """
    return cloudwatch.Metric(
        namespace="AWS/WAFV2",
        metric_name="BlockedRequests",
        dimensions_map={"WebACL": settings.global_prefix, "Rule": rule},
        statistic=cloudwatch.Stats.SUM,
        period=MINUTE,
    )


def blocked_requests_alarm(
    scope: Construct,
    *,
    settings: EnvironmentSettings,
    topics: AlarmTopics,
    firewall: FirewallSettings,
) -> RunbookAlarm:
    """The alarm, which must be in us-east-1. It can wait: to block is what a web ACL is for."""
    limit = firewall.blocked_per_minute
    return RunbookAlarm(
        scope,
        "firewall.blocked_requests",
        settings=settings,
        topics=topics,
        metric=blocked_requests(settings),
        meaning=(
            "Requests that the web ACL blocked: somebody attacks, or a rule takes readers for "
            f"attackers. Alarm: > {limit} a minute"
        ),
        threshold=limit,
        silence="nothing was blocked",
        urgency=Urgency.WORKING_HOURS,
    )
