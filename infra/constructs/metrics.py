"""Evenflow's metrics in CloudWatch, and the sudden drop of a rate."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.metrics.metric_catalogue import Metric

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
    """A metric of the catalogue over all tasks of an environment.

    It has no unit, as AWS advises: CloudWatch then takes what was published, and a wrong unit would
    leave an alarm without data. A metric always has the same unit.
    """
    return cloudwatch.Metric(
        namespace=METRIC_NAMESPACE,
        metric_name=metric.name,
        dimensions_map={"Environment": settings.prefix},
        statistic=statistic,
        period=period,
        label=label,
    )


def of_enough_cases(
    metric: Metric,
    settings: EnvironmentSettings,
    statistic: str,
    least: int,
    *,
    period: Duration = MINUTE,
) -> cloudwatch.MathExpression:
    """A ratio, or 0 where it is of fewer than `least` cases: each of them is too much of a share.

    CloudWatch has the cases of a ratio as the number of its samples.
    """
    return cloudwatch.MathExpression(
        expression=f"IF(cases>={least}, share, 0)",
        using_metrics={
            "cases": evenflow_metric(
                metric, settings, cloudwatch.Stats.SAMPLE_COUNT, period=period
            ),
            "share": evenflow_metric(metric, settings, statistic, period=period),
        },
        period=period,
        label="percent, where there are enough cases",
    )


def sudden_drop(
    metric: Metric, settings: EnvironmentSettings, period: Duration = MINUTE
) -> cloudwatch.MathExpression:
    """The percent by which a rate, summed over all tasks, is below that of the period before.

    0 where it was quiet before. Each task publishes its rate once a minute, so the sum over a
    longer period is a multiple of the rate. DIFF has no value at the first datapoint. Where it was
    quiet the divisor is 1: CloudWatch may evaluate the branch that IF does not take, and without a
    value the alarm would be raised in every idle hour.
    """
    quiet = settings.alarms.quiet_frames_per_second * period.to_minutes()
    current = evenflow_metric(metric, settings, "Sum", period=period)
    previous = cloudwatch.MathExpression(
        expression="current-DIFF(current)", using_metrics={"current": current}, period=period
    )
    return cloudwatch.MathExpression(
        expression=(
            f"IF(previous>{quiet:g}, 100*(previous-current)/IF(previous>{quiet:g}, previous, 1), 0)"
        ),
        using_metrics={"previous": previous, "current": current},
        period=period,
        label="percent lost since the period before",
    )
