"""A metric of ours in CloudWatch, as the publishers name it."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from infra.settings import EnvironmentSettings
from stream_core.metric_catalogue import Metric

METRIC_NAMESPACE = "Evenflow"
MINUTE = Duration.minutes(1)


def evenflow_metric(
    metric: Metric,
    settings: EnvironmentSettings,
    statistic: str,
    *,
    period: Duration = MINUTE,
    label: str | None = None,
) -> cloudwatch.Metric:
    """A row of the catalogue over all tasks of an environment.

    No unit: CloudWatch then takes what was published, and AWS advises it, for a wrong one leaves an alarm without data.
    Every publisher gives a metric one unit only.
    """
    return cloudwatch.Metric(
        namespace=METRIC_NAMESPACE,
        metric_name=metric.name,
        dimensions_map={"Environment": settings.name},
        statistic=statistic,
        period=period,
        label=label,
    )
