"""`python -m evenflow.infra.announce`: the resources of the last synthesis, and their cost.

It reads the templates and settings in cdk.out.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from evenflow.infra.estimates.costs import HOURS_PER_MONTH, CostRow, Template, costs
from evenflow.infra.estimates.quotas import quota_lines
from evenflow.infra.estimates.traffic import Traffic
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.synthesized_settings import (
    ASSEMBLY,
    NotSynthesizedError,
    read_settings,
)
from evenflow.infra.updates.stacks import synthesized_stacks

# The resource types that are counted. Permissions, routes and the like are left out.
_SHOWN = (
    ("AWS::EC2::VPC", "VPC"),
    ("AWS::EC2::VPCEndpoint", "VPC endpoints"),
    ("AWS::ElasticLoadBalancingV2::LoadBalancer", "internal load balancer"),
    ("AWS::ECS::Service", "ECS service"),
    ("AWS::DynamoDB::Table", "DynamoDB tables"),
    ("AWS::SQS::Queue", "queue of dead letters"),
    ("AWS::SecretsManager::Secret", "secrets"),
    ("AWS::KMS::Key", "KMS key"),
    ("AWS::Lambda::Function", "Lambda functions (CDK's own included)"),
    ("AWS::ApiGatewayV2::Api", "HTTP API"),
    ("AWS::CloudFront::Distribution", "CloudFront distribution"),
    ("AWS::WAFv2::WebACL", "web ACL"),
    ("AWS::S3::Bucket", "buckets"),
    ("AWS::SageMaker::Endpoint", "SageMaker endpoint"),
    ("AWS::CloudWatch::Alarm", "alarms"),
    ("AWS::CloudWatch::CompositeAlarm", "alarms made of those"),
    ("AWS::CloudWatch::Dashboard", "dashboard"),
)


def announcement(
    settings: EnvironmentSettings, templates: Mapping[str, Template], traffic: Traffic
) -> str:
    """The text for an environment, from its templates by stack."""
    return "\n".join(
        [
            f"Environment {settings.prefix} in {settings.region.name}: {len(templates)} stacks",
            *(f"  {stack}" for stack in sorted(templates)),
            "",
            *_created(templates),
            "",
            *_table(costs(settings, templates.values(), traffic)),
            "",
            *_assumptions(traffic),
            "",
            "Quotas that the account needs (Service Quotas):",
            *(f"  {line}" for line in quota_lines(settings, traffic)),
            *_warnings(settings),
        ]
    )


def summary(settings: EnvironmentSettings, assembly: Path) -> str:
    """One line and the warnings, which every synthesis prints."""
    templates = _templates(settings.prefix, assembly)
    at_rest = sum(row.month_at_rest for row in costs(settings, templates.values(), Traffic()))
    line = (
        f"{settings.prefix} in {settings.region.name}: {len(templates)} stacks, about "
        f"${at_rest:,.0f} a month at rest; `python -m evenflow.infra.announce` says more"
    )
    return "\n".join([line, *filter(None, _warnings(settings))])


def _warnings(settings: EnvironmentSettings) -> list[str]:
    """Notes on settings that may be a mistake."""
    lines, region = [], settings.region
    if region.dearer is None:
        lines.append(f"how much dearer {region.name} is than us-east-1 is not known here.")
    elif region.dearer > 1:
        lines.append(
            f"{region.name} costs about {region.dearer - 1:.0%} more than that, without the model."
        )
    if settings.open_tenant:
        lines.append("anybody may open a session: open_tenant is on.")
    if not settings.alarms.somebody_is_paged:
        lines.append(
            "alarms page nobody: set alarms.page_email or alarms.page_topic_arn, or subscribe "
            "somebody to the topic of pages."
        )
    if settings.edge.firewall is None and settings.edge.web_acl_arn is None:
        lines.append("one address can keep others from opening sessions: there is no web ACL.")
    return ["", *(f"NOTE: {line}" for line in lines)] if lines else []


def _created(templates: Mapping[str, Template]) -> list[str]:
    types = Counter(
        resource["Type"]
        for template in templates.values()
        for resource in template["Resources"].values()
    )
    shown = ", ".join(f"{types[kind]} {name}" for kind, name in _SHOWN if types[kind])
    return [f"It has {types.total()} resources, among them {shown}."]


def _table(rows: list[CostRow]) -> list[str]:
    heading = (
        f"{'about, in US dollars':<44}{'a month at rest':>18}"
        f"{'1,000 streams: an hour':>26}{'a month of that':>18}"
    )
    lines = [
        f"{row.what + ('' if all(price.sure for price in row.prices) else ' *'):<44}"
        f"{row.month_at_rest:>18,.2f}{row.hour_of_streams:>26,.2f}"
        f"{row.hour_of_streams * HOURS_PER_MONTH:>18,.0f}"
        for row in rows
    ]
    rest, hour = sum(row.month_at_rest for row in rows), sum(row.hour_of_streams for row in rows)
    total = f"{'together':<44}{rest:>18,.2f}{hour:>26,.2f}{hour * HOURS_PER_MONTH:>18,.0f}"
    return [heading, "-" * len(heading), *lines, "-" * len(heading), total]


def _assumptions(traffic: Traffic) -> list[str]:
    answers = (
        f"{traffic.answer_seconds:g} s and {traffic.output_tokens} tokens each "
        f"({traffic.answers_per_hour:,.0f} an hour)"
    )
    frames = f"{traffic.frames_per_second:g} frames a second of {traffic.frame_bytes} bytes"
    return [
        (
            f"{traffic.streams:,} streams: that number of answers being generated at each moment, "
            f"{answers}; {frames};"
        ),
        (
            f"{traffic.connections_per_stream} open connections for each; {traffic.polled:.0%} of "
            "the answers read by polls."
        ),
        (
            "Prices: us-east-1, on demand, no free tier, no discount (sources: "
            "infra/estimates/prices.py); * not verified."
        ),
        (
            "Not counted: traces of handlers, KMS requests, dead letters, Container Insights, "
            "backups, data between zones, taxes."
        ),
    ]


def _templates(prefix: str, assembly: Path) -> dict[str, Template]:
    stacks = synthesized_stacks(assembly, prefix)
    return {name: stack.template for name, stack in stacks.items()}


def main() -> int:
    """Print the announcement. Returns the exit status."""
    try:
        settings = read_settings()
    except NotSynthesizedError as error:
        print(error, file=sys.stderr)
        return 1
    print(announcement(settings, _templates(settings.prefix, ASSEMBLY), Traffic()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
