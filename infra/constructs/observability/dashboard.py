"""The dashboard that runbooks point to: a graph for each metric of the catalogue and of AWS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from evenflow.infra.constructs.data.data import dead_letter_queue_name
from evenflow.infra.constructs.data.tables import Tables
from evenflow.infra.constructs.edge.firewall import RULES
from evenflow.infra.constructs.inference.sagemaker_endpoint import VARIANT, endpoint_name
from evenflow.infra.constructs.metrics import MINUTE, evenflow_metric, sudden_drop
from evenflow.infra.constructs.observability.service_alarms import blocked_requests
from evenflow.infra.constructs.service.workers import worker_service_name
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.regions import GLOBAL_REGION
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
        (title, [_catalogue_graph(metric, settings) for metric in metrics])
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


def _catalogue_graph(metric: Metric, settings: EnvironmentSettings) -> cloudwatch.GraphWidget:
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


_TABLE_KINDS = ("sessions", "ledger", "responses", "tenants")
_CLIENTS_CALL = ("session-init", "poll-response")
_UPKEEP = ("rotate-signing-keys", "usage-file")


def aws_rows(
    settings: EnvironmentSettings,
    *,
    load_balancer: elbv2.IApplicationLoadBalancer,
    target_group: elbv2.IApplicationTargetGroup,
    http_api_id: str | None,
    cluster_name: str,
    tables: Tables | None,
) -> list[tuple[str, list[cloudwatch.IWidget]]]:
    """The rows of graphs, each with its title. Without `tables` they are ours."""
    rows = [
        (
            "Load balancer and tasks",
            _balancer(load_balancer, target_group)
            + _tasks(settings, cluster_name)
            + _workers(settings, cluster_name),
        ),
        _functions_and_api(settings, http_api_id),
        (
            "Tables and dead letters",
            _table_graphs(_table_names(settings, tables)) + _dead_letters(settings),
        ),
    ]
    if settings.inference.kind == "sagemaker":
        rows.append(("Model endpoint", _endpoint(settings)))
    if settings.edge.firewall is not None:
        blocked = [
            blocked_requests(settings, rule).with_(region=GLOBAL_REGION, label=rule)
            for rule in RULES
        ]
        rows.append(("Web ACL", [_aws_graph("Requests that were blocked", blocked)]))
    return rows


def _balancer(
    load_balancer: elbv2.IApplicationLoadBalancer, target_group: elbv2.IApplicationTargetGroup
) -> list[cloudwatch.IWidget]:
    metrics = load_balancer.metrics
    errors = [
        target_group.metrics.http_code_target(
            elbv2.HttpCodeTarget.TARGET_5XX_COUNT, label="by handlers"
        ),
        metrics.http_code_elb(elbv2.HttpCodeElb.ELB_5XX_COUNT, label="by the load balancer"),
    ]
    hosts = [
        target_group.metrics.healthy_host_count(statistic="Minimum"),
        target_group.metrics.unhealthy_host_count(statistic="Maximum"),
    ]
    return [
        _aws_graph(
            "Requests and connections", [metrics.request_count(), metrics.new_connection_count()]
        ),
        _aws_graph("Answers 5xx", errors),
        _aws_graph("Tasks as the load balancer sees them", hosts),
    ]


def _tasks(settings: EnvironmentSettings, cluster_name: str) -> list[cloudwatch.IWidget]:
    used = _used(cluster_name, f"{settings.prefix}-handler")
    return [_aws_graph("CPU and memory of the handlers, %", used)]


def _workers(settings: EnvironmentSettings, cluster_name: str) -> list[cloudwatch.IWidget]:
    if settings.workers is None:
        return []
    service = worker_service_name(settings)
    dimensions = {"ClusterName": cluster_name, "ServiceName": service}
    running = _aws_metric(
        "AWS/ECS", "CPUUtilization", dimensions, cloudwatch.Stats.SAMPLE_COUNT, "running"
    )
    return [
        _aws_graph("CPU and memory of the workers, %", _used(cluster_name, service)),
        _aws_graph("Workers", [running]),
    ]


def _used(cluster_name: str, service: str) -> list[cloudwatch.Metric]:
    dimensions = {"ClusterName": cluster_name, "ServiceName": service}
    return [
        _aws_metric("AWS/ECS", name, dimensions, statistic, f"{what} {statistic}")
        for name, what in (("CPUUtilization", "CPU"), ("MemoryUtilization", "memory"))
        for statistic in ("Average", "Maximum")
    ]


def _functions_and_api(
    settings: EnvironmentSettings, http_api_id: str | None
) -> tuple[str, list[cloudwatch.IWidget]]:
    if http_api_id is None:
        return "Functions", _functions(settings, _UPKEEP)
    every = _functions(settings, (*_CLIENTS_CALL, *_UPKEEP))
    return "Functions and HTTP API", every + _api(http_api_id)


def _functions(
    settings: EnvironmentSettings, functions: tuple[str, ...]
) -> list[cloudwatch.IWidget]:
    return [
        _aws_graph(
            title,
            [
                _aws_metric(
                    "AWS/Lambda",
                    name,
                    {"FunctionName": f"{settings.prefix}-{function}"},
                    statistic,
                    function,
                )
                for function in functions
            ],
        )
        for title, name, statistic in (
            ("Function errors", "Errors", "Sum"),
            ("Function throttles", "Throttles", "Sum"),
            ("Function run time, p99 ms", "Duration", "p99"),
            ("Functions running at once", "ConcurrentExecutions", "Maximum"),
        )
    ]


def _api(http_api_id: str) -> list[cloudwatch.IWidget]:
    dimensions = {"ApiId": http_api_id}
    answers = [
        _aws_metric("AWS/ApiGateway", name, dimensions, "Sum", name)
        for name in ("Count", "4xx", "5xx")
    ]
    return [_aws_graph("HTTP API", answers)]


def _table_names(settings: EnvironmentSettings, tables: Tables | None) -> dict[str, str]:
    if tables is None:
        return {table: f"{settings.prefix}-{table}" for table in _TABLE_KINDS}
    return {table: getattr(tables, table).table_name for table in _TABLE_KINDS}


def _table_graphs(names: Mapping[str, str]) -> list[cloudwatch.IWidget]:
    return [
        _aws_graph(
            title,
            [
                _aws_metric("AWS/DynamoDB", name, {"TableName": table_name}, "Sum", table)
                for table, table_name in names.items()
            ],
        )
        for title, name in (
            ("Write units a minute", "ConsumedWriteCapacityUnits"),
            ("Read units a minute", "ConsumedReadCapacityUnits"),
            ("Throttled writes", "WriteThrottleEvents"),
            ("Throttled reads", "ReadThrottleEvents"),
        )
    ]


def _dead_letters(settings: EnvironmentSettings) -> list[cloudwatch.IWidget]:
    dimensions = {"QueueName": dead_letter_queue_name(settings)}
    waiting = [
        _aws_metric("AWS/SQS", f"ApproximateNumberOfMessages{suffix}", dimensions, "Maximum", label)
        for suffix, label in (("Visible", "waiting"), ("NotVisible", "being looked at"))
    ]
    return [_aws_graph("Dead letters", waiting)]


def _endpoint(settings: EnvironmentSettings) -> list[cloudwatch.IWidget]:
    dimensions = {"EndpointName": endpoint_name(settings), "VariantName": VARIANT}
    return [
        _aws_graph(title, [_aws_metric(namespace, name, dimensions, statistic, statistic)])
        for title, namespace, name, statistic in (
            (
                "Requests at once per instance",
                "AWS/SageMaker",
                "ConcurrentRequestsPerModel",
                "Maximum",
            ),
            ("Endpoint answers 5xx", "AWS/SageMaker", "Invocation5XXErrors", "Sum"),
            ("GPU, % of each added up", "/aws/sagemaker/Endpoints", "GPUUtilization", "Average"),
            (
                "GPU memory, % of each added up",
                "/aws/sagemaker/Endpoints",
                "GPUMemoryUtilization",
                "Average",
            ),
        )
    ]


def _aws_metric(
    namespace: str, name: str, dimensions: dict[str, str], statistic: str, label: str
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dimensions,
        statistic=statistic,
        period=MINUTE,
        label=label,
    )


def _aws_graph(title: str, metrics: list[cloudwatch.Metric]) -> cloudwatch.IWidget:
    return cloudwatch.GraphWidget(
        title=title, width=GRAPH_WIDTH, height=GRAPH_HEIGHT, left=metrics, period=MINUTE
    )
