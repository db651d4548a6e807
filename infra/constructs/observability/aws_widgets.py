"""Graphs of AWS's own metrics: load balancer, tasks, tables, dead letters, functions, model."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_elasticloadbalancingv2 as elbv2

from evenflow.infra.constructs.data.dead_letter_queue import dead_letter_queue_name
from evenflow.infra.constructs.data.tables import Tables
from evenflow.infra.constructs.edge.firewall import RULES
from evenflow.infra.constructs.inference.sagemaker_endpoint import VARIANT, endpoint_name
from evenflow.infra.constructs.metrics import MINUTE
from evenflow.infra.constructs.observability.blocked_requests import blocked_requests
from evenflow.infra.constructs.observability.dashboard import GRAPH_HEIGHT, GRAPH_WIDTH
from evenflow.infra.constructs.service.workers import worker_service_name
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.regions import GLOBAL_REGION

_TABLES = ("sessions", "ledger", "responses", "tenants")
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
            _tables(_table_names(settings, tables)) + _dead_letters(settings),
        ),
    ]
    if settings.inference.kind == "sagemaker":
        rows.append(("Model endpoint", _endpoint(settings)))
    if settings.edge.firewall is not None:
        blocked = [
            blocked_requests(settings, rule).with_(region=GLOBAL_REGION, label=rule)
            for rule in RULES
        ]
        rows.append(("Web ACL", [_graph("Requests that were blocked", blocked)]))
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
        _graph(
            "Requests and connections", [metrics.request_count(), metrics.new_connection_count()]
        ),
        _graph("Answers 5xx", errors),
        _graph("Tasks as the load balancer sees them", hosts),
    ]


def _tasks(settings: EnvironmentSettings, cluster_name: str) -> list[cloudwatch.IWidget]:
    used = _used(cluster_name, f"{settings.prefix}-handler")
    return [_graph("CPU and memory of the handlers, %", used)]


def _workers(settings: EnvironmentSettings, cluster_name: str) -> list[cloudwatch.IWidget]:
    if settings.workers is None:
        return []
    service = worker_service_name(settings)
    dimensions = {"ClusterName": cluster_name, "ServiceName": service}
    running = _metric(
        "AWS/ECS", "CPUUtilization", dimensions, cloudwatch.Stats.SAMPLE_COUNT, "running"
    )
    return [
        _graph("CPU and memory of the workers, %", _used(cluster_name, service)),
        _graph("Workers", [running]),
    ]


def _used(cluster_name: str, service: str) -> list[cloudwatch.Metric]:
    dimensions = {"ClusterName": cluster_name, "ServiceName": service}
    return [
        _metric("AWS/ECS", name, dimensions, statistic, f"{what} {statistic}")
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
        _graph(
            title,
            [
                _metric(
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
        _metric("AWS/ApiGateway", name, dimensions, "Sum", name) for name in ("Count", "4xx", "5xx")
    ]
    return [_graph("HTTP API", answers)]


def _table_names(settings: EnvironmentSettings, tables: Tables | None) -> dict[str, str]:
    if tables is None:
        return {table: f"{settings.prefix}-{table}" for table in _TABLES}
    return {table: getattr(tables, table).table_name for table in _TABLES}


def _tables(names: Mapping[str, str]) -> list[cloudwatch.IWidget]:
    return [
        _graph(
            title,
            [
                _metric("AWS/DynamoDB", name, {"TableName": table_name}, "Sum", table)
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
        _metric("AWS/SQS", f"ApproximateNumberOfMessages{suffix}", dimensions, "Maximum", label)
        for suffix, label in (("Visible", "waiting"), ("NotVisible", "being looked at"))
    ]
    return [_graph("Dead letters", waiting)]


def _endpoint(settings: EnvironmentSettings) -> list[cloudwatch.IWidget]:
    dimensions = {"EndpointName": endpoint_name(settings), "VariantName": VARIANT}
    return [
        _graph(title, [_metric(namespace, name, dimensions, statistic, statistic)])
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


def _metric(
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


def _graph(title: str, metrics: list[cloudwatch.Metric]) -> cloudwatch.IWidget:
    return cloudwatch.GraphWidget(
        title=title, width=GRAPH_WIDTH, height=GRAPH_HEIGHT, left=metrics, period=MINUTE
    )
