"""AWS's prices in US dollars, on demand, in us-east-1, without free tiers and discounts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AwsPrice:
    """One price.

    Args:
        usd: the price of one unit.
        source: where it was found.
        read: the date of that page, or when it was last confirmed.
        sure: False where sources disagree: check it before you rely on it.
    """

    usd: float
    source: str
    read: str
    sure: bool = True


_FARGATE = "vantage.sh/blog/fargate-pricing"
FARGATE_VCPU_HOUR = AwsPrice(0.03238, _FARGATE, "2026-11")  # Linux on ARM
FARGATE_GB_HOUR = AwsPrice(0.00356, _FARGATE, "2026-11")
PUBLIC_ADDRESS_HOUR = AwsPrice(
    0.005,
    "aws.amazon.com/blogs/aws/new-aws-public-ipv4-address-charge-public-ip-insights",
    "2026-11",
)
_BALANCER = "cloud-horizons.com/blog/alb-the-line-item-nobody-watches"
BALANCER_HOUR = AwsPrice(0.0225, _BALANCER, "2026-05")
BALANCER_UNIT_HOUR = AwsPrice(0.008, _BALANCER, "2026-05")
_ENDPOINT = "zacfukuda.com/blog/aws-nat-gateway-vs-vpc-endpoint"
ENDPOINT_ZONE_HOUR = AwsPrice(0.01, _ENDPOINT, "2026-11")
ENDPOINT_GB = AwsPrice(
    0.01, "aws.amazon.com/privatelink/pricing", "2026"
)  # the first PB of a month
NAT_HOUR = AwsPrice(0.045, _ENDPOINT, "2026-11")  # and as much for each GB
# Since November 2024. Pages that say twice as much are older, or copied from older ones.
_TABLE = "airbyte.com/data-engineering-resources/dynamodb-pricing"
TABLE_WRITE = AwsPrice(0.625e-6, _TABLE, "2026-11")  # one unit: up to 1 KB; a transaction takes two
TABLE_READ = AwsPrice(
    0.125e-6, _TABLE, "2026-11"
)  # one unit: up to 4 KB; an eventually consistent read takes half
TABLE_GB_MONTH = AwsPrice(0.25, "aws.amazon.com/dynamodb/pricing", "2026")
_FUNCTION = "aws.amazon.com/lambda/pricing, as quoted by several projects"
FUNCTION_GB_SECOND = AwsPrice(0.0000133334, _FUNCTION, "2026")  # ARM
FUNCTION_CALL = AwsPrice(0.20e-6, _FUNCTION, "2026")
API_CALL = AwsPrice(1.00e-6, "amnic.com, awsforengineers.com, both on HTTP APIs", "2025-05")
_EDGE = "aws.amazon.com/cloudfront/pricing"
EDGE_GB = AwsPrice(0.085, _EDGE, "2026")  # North America and Europe, the first 10 TB a month
EDGE_CALL = AwsPrice(0.01 / 10_000, "wring.co/blog/aws-cloudfront-pricing-guide", "2026-03")
_WATCH = "signoz.io/guides/cloudwatch-pricing, factualminds.com"
_ALARM = "c3x.dev/resources/aws/aws_cloudwatch_metric_alarm"
# By the hour, and only for hours in which something is sent.
METRIC_MONTH = AwsPrice(0.30, _WATCH, "2026-11")
METRIC_CALL = AwsPrice(0.01 / 1_000, "aws.amazon.com/cloudwatch/pricing", "2026")  # PutMetricData
ALARM_METRIC_MONTH = AwsPrice(0.10, _ALARM, "2026")
COMPOSITE_ALARM_MONTH = AwsPrice(0.50, _ALARM, "2026")
DASHBOARD_MONTH = AwsPrice(3.00, _WATCH, "2026-06")
LOG_GB = AwsPrice(0.50, _WATCH, "2026-11")  # to write them; to keep them is 0.03 a month
TRACE = AwsPrice(5.00e-6, "aws.amazon.com/xray/pricing", "2026")  # recorded
BUDGET_DAY = AwsPrice(
    0.02,
    "docs.aws.amazon.com/awsaccountbilling, budgets-managing-costs: an account's first two are "
    "free; newer pages say that all without an action are",
    "2026",
    sure=False,
)
SECRET_MONTH = AwsPrice(
    0.40, "aws.amazon.com/secrets-manager/pricing, as quoted by several projects", "2026"
)
KEY_MONTH = AwsPrice(1.00, "cloudburn.io/blog/aws-kms-pricing", "2026-03")
_FIREWALL = "c3x.dev/blog/aws-waf-cost-explained, awsnegotiations.com/waf-pricing-strategy.html"
WEB_ACL_MONTH = AwsPrice(5.00, _FIREWALL, "2026-11")
WEB_ACL_RULE_MONTH = AwsPrice(1.00, _FIREWALL, "2026-11")
WEB_ACL_CALL = AwsPrice(0.60e-6, _FIREWALL, "2026-11")
_BEDROCK = (
    "clauder-navi.com/en/bedrock-claude-cost: Claude Haiku 4.5, 10 % more for a profile of one "
    "geography"
)
BEDROCK_INPUT_TOKEN = AwsPrice(1.10e-6, _BEDROCK, "2026-11")
BEDROCK_OUTPUT_TOKEN = AwsPrice(5.50e-6, _BEDROCK, "2026-11")
GPU_HOUR = {
    "ml.g6e.xlarge": AwsPrice(2.61, "several projects; others say 1.86", "2026", sure=False)
}
