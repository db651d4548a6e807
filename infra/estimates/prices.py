"""AWS's prices in US dollars, on demand, in us-east-1, without free tiers and discounts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Price:
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
FARGATE_VCPU_HOUR = Price(0.03238, _FARGATE, "2026-11")  # Linux on ARM
FARGATE_GB_HOUR = Price(0.00356, _FARGATE, "2026-11")
PUBLIC_ADDRESS_HOUR = Price(
    0.005,
    "aws.amazon.com/blogs/aws/new-aws-public-ipv4-address-charge-public-ip-insights",
    "2026-11",
)
_BALANCER = "cloud-horizons.com/blog/alb-the-line-item-nobody-watches"
BALANCER_HOUR = Price(0.0225, _BALANCER, "2026-05")
BALANCER_UNIT_HOUR = Price(0.008, _BALANCER, "2026-05")
_ENDPOINT = "zacfukuda.com/blog/aws-nat-gateway-vs-vpc-endpoint"
ENDPOINT_ZONE_HOUR = Price(0.01, _ENDPOINT, "2026-11")
ENDPOINT_GB = Price(0.01, "aws.amazon.com/privatelink/pricing", "2026")  # the first PB of a month
NAT_HOUR = Price(0.045, _ENDPOINT, "2026-11")  # and as much for each GB
# Since November 2024. Pages that say twice as much are older, or copied from older ones.
_TABLE = "airbyte.com/data-engineering-resources/dynamodb-pricing"
TABLE_WRITE = Price(0.625e-6, _TABLE, "2026-11")  # one unit: up to 1 KB; a transaction takes two
TABLE_READ = Price(
    0.125e-6, _TABLE, "2026-11"
)  # one unit: up to 4 KB; an eventually consistent read takes half
TABLE_GB_MONTH = Price(0.25, "aws.amazon.com/dynamodb/pricing", "2026")
_FUNCTION = "aws.amazon.com/lambda/pricing, as quoted by several projects"
FUNCTION_GB_SECOND = Price(0.0000133334, _FUNCTION, "2026")  # ARM
FUNCTION_CALL = Price(0.20e-6, _FUNCTION, "2026")
API_CALL = Price(1.00e-6, "amnic.com, awsforengineers.com, both on HTTP APIs", "2025-05")
_EDGE = "aws.amazon.com/cloudfront/pricing"
EDGE_GB = Price(0.085, _EDGE, "2026")  # North America and Europe, the first 10 TB a month
EDGE_CALL = Price(0.01 / 10_000, "wring.co/blog/aws-cloudfront-pricing-guide", "2026-03")
_WATCH = "signoz.io/guides/cloudwatch-pricing, factualminds.com"
_ALARM = "c3x.dev/resources/aws/aws_cloudwatch_metric_alarm"
# By the hour, and only for hours in which something is sent.
METRIC_MONTH = Price(0.30, _WATCH, "2026-11")
METRIC_CALL = Price(0.01 / 1_000, "aws.amazon.com/cloudwatch/pricing", "2026")  # PutMetricData
ALARM_METRIC_MONTH = Price(0.10, _ALARM, "2026")
COMPOSITE_ALARM_MONTH = Price(0.50, _ALARM, "2026")
DASHBOARD_MONTH = Price(3.00, _WATCH, "2026-06")
LOG_GB = Price(0.50, _WATCH, "2026-11")  # to write them; to keep them is 0.03 a month
TRACE = Price(5.00e-6, "aws.amazon.com/xray/pricing", "2026")  # recorded
BUDGET_DAY = Price(
    0.02,
    "docs.aws.amazon.com/awsaccountbilling, budgets-managing-costs: an account's first two are "
    "free; newer pages say that all without an action are",
    "2026",
    sure=False,
)
SECRET_MONTH = Price(
    0.40, "aws.amazon.com/secrets-manager/pricing, as quoted by several projects", "2026"
)
KEY_MONTH = Price(1.00, "cloudburn.io/blog/aws-kms-pricing", "2026-03")
_FIREWALL = "c3x.dev/blog/aws-waf-cost-explained, awsnegotiations.com/waf-pricing-strategy.html"
WEB_ACL_MONTH = Price(5.00, _FIREWALL, "2026-11")
WEB_ACL_RULE_MONTH = Price(1.00, _FIREWALL, "2026-11")
WEB_ACL_CALL = Price(0.60e-6, _FIREWALL, "2026-11")
_BEDROCK = (
    "clauder-navi.com/en/bedrock-claude-cost: Claude Haiku 4.5, 10 % more for a profile of one "
    "geography"
)
BEDROCK_INPUT_TOKEN = Price(1.10e-6, _BEDROCK, "2026-11")
BEDROCK_OUTPUT_TOKEN = Price(5.50e-6, _BEDROCK, "2026-11")
GPU_HOUR = {"ml.g6e.xlarge": Price(2.61, "several projects; others say 1.86", "2026", sure=False)}
