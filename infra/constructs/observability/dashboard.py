"""The dashboard that runbooks point to: a graph for each metric of the catalogue."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from evenflow.infra.constructs.metrics import evenflow_metric, sudden_drop
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.metrics.metric_catalogue import PUBLISHED, Metric, MetricKind

# A metric belongs to the first row with a prefix of its name. The last row takes all others.
_ROWS = (
    (
        "Delivery",
        (
            "ws.delivery",
            "ws.messages",
            "ws.backpressure",
            "ws.uneven",
            "deltas.",
            "readers.",
            "clock.",
        ),
    ),
    ("Load", ("node.", "memory.", "http.event_streams", "messages.")),
    ("Connections", ("ws.",)),
    ("Fallback", ("fallback.",)),
    ("Model", ("model.", "upstream.", "generations.", "responses.", "tokens.")),
    ("Queue", ("queue.",)),
    ("Store", ("store.",)),
    ("Take-over", ("lease.",)),
    ("Others", ("",)),
)
GRAPH_WIDTH, GRAPH_HEIGHT = 6, 6


def catalogue_rows(settings: EnvironmentSettings) -> list[tuple[str, list[cloudwatch.IWidget]]]:
    """The rows of graphs with their titles.

    Every metric is there once, first those with an alarm.
    """
    rows: dict[str, list[Metric]] = {title: [] for title, _ in _ROWS}
    for metric in sorted(PUBLISHED, key=lambda metric: metric.alarm is None):
        rows[_row_of(metric)].append(metric)
    return [
        (title, [_graph(metric, settings) for metric in metrics])
        for title, metrics in rows.items()
        if metrics
    ]


def _row_of(metric: Metric) -> str:
    return next(title for title, prefixes in _ROWS if metric.name.startswith(prefixes))


def _statistics(metric: Metric) -> tuple[str, ...]:
    match metric.kind:
        case MetricKind.DISTRIBUTION:
            return "p50", "p95", "p99", "p99.9"
        case MetricKind.COUNTER:
            return ("Sum",)
        case MetricKind.GAUGE if metric.unit not in ("ms", "%"):
            return "Sum", "Maximum"  # each task publishes once a minute
        case _:
            return "Average", "Maximum"


def _graph(metric: Metric, settings: EnvironmentSettings) -> cloudwatch.GraphWidget:
    alarm = metric.alarm
    statistics = dict.fromkeys((*_statistics(metric), *((alarm.statistic.value,) if alarm else ())))
    drop = alarm is not None and alarm.sudden_drop
    threshold = (
        [cloudwatch.HorizontalAnnotation(value=alarm.above, label=f"alarm: {alarm.text}")]
        if alarm
        else []
    )
    return cloudwatch.GraphWidget(
        title=f"{metric.name} ({metric.target})" if metric.target else metric.name,
        width=GRAPH_WIDTH,
        height=GRAPH_HEIGHT,
        left=[
            evenflow_metric(metric, settings, statistic, label=statistic)
            for statistic in statistics
        ],
        left_y_axis=cloudwatch.YAxisProps(label=metric.unit, show_units=False, min=0),
        left_annotations=[] if drop else threshold,
        # A drop is in percent, so it has an axis of its own on the right.
        right=[sudden_drop(metric, settings)] if drop else [],
        right_annotations=threshold if drop else [],
    )


_WIDTH = 24
Row = tuple[str, list[cloudwatch.IWidget]]


def dashboard(
    scope: Construct,
    *,
    settings: EnvironmentSettings,
    alarms: Sequence[cloudwatch.IAlarm],
    rows: list[Row],
) -> cloudwatch.Dashboard:
    """The dashboard `evenflow-<env>`: the states of all alarms, then the titled rows."""
    board = cloudwatch.Dashboard(
        scope,
        "Dashboard",
        dashboard_name=settings.global_prefix,
        default_interval=Duration.hours(3),
    )
    board.add_widgets(
        cloudwatch.AlarmStatusWidget(title="Alarms", alarms=alarms, width=_WIDTH, height=6)
    )
    for title, widgets in rows:
        board.add_widgets(cloudwatch.TextWidget(markdown=f"## {title}", width=_WIDTH, height=1))
        board.add_widgets(*widgets)
    return board
