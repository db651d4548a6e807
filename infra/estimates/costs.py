"""About what an environment costs at rest, and per 1,000 concurrent streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evenflow.infra.estimates import prices
from evenflow.infra.estimates.prices import AwsPrice
from evenflow.infra.estimates.traffic import Traffic
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.stack_settings import ServiceSettings
from evenflow.stream_core.metrics.canary_metrics import CANARY_METRICS
from evenflow.stream_core.metrics.metric_catalogue import PUBLISHED, MetricKind

HOURS_PER_MONTH = 730
CANARY_OUTPUT_TOKENS = 150
"""Of the answer to its question."""
_CANARY_INPUT_TOKENS = 30
# Every task renews its lease, and reads all leases twice a second: a read unit has those of some
# 25 tasks.
_LEASE_WRITES_PER_SECOND, _LEASE_READS_PER_SECOND = 1, 2
# And looks every three seconds whether tenants' records have changed.
_TENANT_READS_PER_SECOND = 1 / 3
_OPENING_SECONDS = 0.05  # of a function, to open a session
_BYTES_PER_LINE = 26  # that CloudWatch adds to each
_TRACED_SHARE = 0.05  # of the calls beyond one a second, by X-Ray's default rule
_FLOW_RECORD_BYTES, _FLOW_RECORDS_PER_HOUR = 110, 6  # AWS joins a flow's packets for ten minutes
_KEPT_DAYS = 1  # an answer and its message
_SENT_AT_REST = {MetricKind.COUNTER, MetricKind.GAUGE}

Template = Mapping[str, Any]
"""A synthesized CloudFormation template."""


@dataclass(frozen=True, slots=True)
class CostRow:
    """One line of the table, in US dollars."""

    what: str
    month_at_rest: float
    hour_of_streams: float
    prices: tuple[AwsPrice, ...]


def costs(
    settings: EnvironmentSettings, templates: Iterable[Template], traffic: Traffic
) -> list[CostRow]:
    """The lines of the table. Resources in the templates are counted, the rest is computed."""
    if not settings.open_tenant:
        traffic = replace(traffic, keyed=1)  # each session is opened with a key
    resources = [resource for template in templates for resource in template["Resources"].values()]
    rows = [
        _tasks(settings, traffic),
        *_workers(settings, traffic),
        _balancer(traffic),
        _way_out(settings, traffic, resources),
        _tables(settings, traffic),
        _storage(settings, traffic),
        _functions(settings, traffic),
        _traces(settings, traffic),
        _edge(traffic),
        *_firewall(resources, traffic),
        _watching(settings, traffic, resources),
        *_canary(settings, traffic),
        _logs(traffic),
        *_flow_logs(settings, resources, traffic),
        *_budgets(resources),
        _keys(resources),
    ]
    if settings.inference.kind == "bedrock":
        rows.append(_bedrock(traffic))
    if settings.inference.kind == "sagemaker":
        rows.append(_gpus(settings, traffic))
    return rows


def _tasks(settings: EnvironmentSettings, traffic: Traffic) -> CostRow:
    return _fargate("ECS Fargate tasks", settings.handler, tasks_for(settings, traffic))


def _workers(settings: EnvironmentSettings, traffic: Traffic) -> list[CostRow]:
    workers = settings.workers
    if workers is None:
        return []
    cores = traffic.streams * traffic.frames_per_second * traffic.worker_seconds
    needed = max(
        cores / (workers.cpu / 1024) / (workers.cpu_percent / 100),
        traffic.streams / workers.answers_per_task,
    )
    return [_fargate("Workers (ECS Fargate tasks)", workers, needed)]


def _fargate(what: str, size: ServiceSettings, tasks: float) -> CostRow:
    """The costs of Fargate tasks. `tasks` is how many the streams need."""
    task = (
        size.cpu / 1024 * prices.FARGATE_VCPU_HOUR.usd
        + size.memory_mib / 1024 * prices.FARGATE_GB_HOUR.usd
    )
    used = (prices.FARGATE_VCPU_HOUR, prices.FARGATE_GB_HOUR)
    return CostRow(what, size.tasks_min * task * HOURS_PER_MONTH, tasks * task, used)


def tasks_for(settings: EnvironmentSettings, traffic: Traffic) -> float:
    """How many tasks the traffic takes, whatever `tasks_max` allows."""
    connections = settings.limits.connections_per_node * settings.handler.load_percent / 100
    return traffic.streams * traffic.connections_per_stream / connections


def _balancer(traffic: Traffic) -> CostRow:
    # The most expensive measure counts: 3,000 open connections or 1 GB an hour are one unit.
    units = max(
        traffic.streams * traffic.connections_per_stream / 3_000, traffic.gigabytes_per_hour
    )
    return CostRow(
        "Load balancer",
        prices.BALANCER_HOUR.usd * HOURS_PER_MONTH,
        units * prices.BALANCER_UNIT_HOUR.usd,
        (prices.BALANCER_HOUR, prices.BALANCER_UNIT_HOUR),
    )


def _way_out(settings: EnvironmentSettings, traffic: Traffic, resources: list[Any]) -> CostRow:
    """How tasks reach AWS."""
    if settings.network.tasks_are_public:
        hour = prices.PUBLIC_ADDRESS_HOUR.usd
        tasks = settings.handler.tasks_min + (
            settings.workers.tasks_min if settings.workers is not None else 0
        )
        return CostRow(
            f"Public addresses of tasks ({tasks})",
            tasks * hour * HOURS_PER_MONTH,
            tasks_for(settings, traffic) * hour,
            (prices.PUBLIC_ADDRESS_HOUR,),
        )
    zones = sum(
        len(resource["Properties"]["SubnetIds"])
        for resource in _of_type(resources, "AWS::EC2::VPCEndpoint")
        if resource["Properties"].get("VpcEndpointType") == "Interface"
    )
    has_model = settings.inference.kind == "bedrock"
    return CostRow(
        f"VPC endpoints ({zones} addresses)",
        zones * prices.ENDPOINT_ZONE_HOUR.usd * HOURS_PER_MONTH,
        has_model * traffic.model_gigabytes_per_hour * prices.ENDPOINT_GB.usd,
        (prices.ENDPOINT_ZONE_HOUR, prices.ENDPOINT_GB),
    )


def month_of_a_lease() -> tuple[float, float]:
    """What a task's lease costs in a month: to renew it, and to read all leases."""
    seconds = 3600 * HOURS_PER_MONTH
    return (
        seconds * _LEASE_WRITES_PER_SECOND * prices.TABLE_WRITE.usd,
        seconds * _LEASE_READS_PER_SECOND * prices.TABLE_READ.usd,
    )


def month_of_looks() -> float:
    """What it costs in a month that a task looks whether tenants' records have changed."""
    return 3600 * HOURS_PER_MONTH * _TENANT_READS_PER_SECOND * prices.TABLE_READ.usd


def _month_of_a_task() -> float:
    """What a task costs in a month in the tables, without any answer."""
    return sum(month_of_a_lease()) + month_of_looks()


def _tables(settings: EnvironmentSettings, traffic: Traffic) -> CostRow:
    return CostRow(
        "DynamoDB",
        settings.handler.tasks_min * _month_of_a_task(),
        traffic.answers_per_hour * _answer_in_tables(traffic)
        + tasks_for(settings, traffic) * _month_of_a_task() / HOURS_PER_MONTH,
        (prices.TABLE_WRITE, prices.TABLE_READ),
    )


def _answer_in_tables(traffic: Traffic) -> float:
    return (
        traffic.writes_per_answer * prices.TABLE_WRITE.usd
        + traffic.reads_per_answer * prices.TABLE_READ.usd
    )


def _storage(settings: EnvironmentSettings, traffic: Traffic) -> CostRow:
    """The storage of an hour's answers in the tables, until they expire."""
    answer: float = (traffic.stored_bytes + traffic.prompt_bytes) * _KEPT_DAYS
    answer += traffic.keyed * traffic.record_bytes * settings.limits.usage_ttl_seconds / 86_400
    gigabyte_months = traffic.answers_per_hour * answer / 1e9 / (HOURS_PER_MONTH / 24)
    return CostRow(
        "Storage of answers and usage",
        0,
        gigabyte_months * prices.TABLE_GB_MONTH.usd,
        (prices.TABLE_GB_MONTH,),
    )


def _function_second(settings: EnvironmentSettings) -> float:
    return settings.functions.memory_mib / 1024 * prices.FUNCTION_GB_SECOND.usd


def _functions(settings: EnvironmentSettings, traffic: Traffic) -> CostRow:
    second = _function_second(settings)
    call = prices.FUNCTION_CALL.usd + prices.API_CALL.usd
    polling = traffic.answers_per_hour * traffic.polled * traffic.answer_seconds
    return CostRow(
        "Lambda and HTTP API",
        0,
        (polling + traffic.sessions_per_hour * _OPENING_SECONDS) * second
        + (traffic.polls_per_hour + traffic.sessions_per_hour) * call,
        (prices.FUNCTION_GB_SECOND, prices.FUNCTION_CALL, prices.API_CALL),
    )


def _traces(settings: EnvironmentSettings, traffic: Traffic) -> CostRow:
    """X-Ray's records of the functions: one call a second of each, and a share of the rest."""
    canary_calls = 0.0
    if settings.canary is not None:
        canary_calls = 60 * HOURS_PER_MONTH * (2 + traffic.polls_per_answer)
    recorded = 0.0
    for calls in (traffic.polls_per_hour, traffic.sessions_per_hour):
        first = min(calls, 3600)
        recorded += first + (calls - first) * _TRACED_SHARE
    return CostRow(
        "Traces of functions (X-Ray)",
        canary_calls * prices.TRACE.usd,
        recorded * prices.TRACE.usd,
        (prices.TRACE,),
    )


def _edge(traffic: Traffic) -> CostRow:
    hour = (
        traffic.gigabytes_per_hour * prices.EDGE_GB.usd
        + traffic.calls_per_hour * prices.EDGE_CALL.usd
    )
    return CostRow("CloudFront", 0, hour, (prices.EDGE_GB, prices.EDGE_CALL))


def _firewall(resources: list[Any], traffic: Traffic) -> list[CostRow]:
    lists = _of_type(resources, "AWS::WAFv2::WebACL")
    if not lists:
        return []
    rules = sum(len(each["Properties"].get("Rules", ())) for each in lists)
    month = len(lists) * prices.WEB_ACL_MONTH.usd + rules * prices.WEB_ACL_RULE_MONTH.usd
    hour = traffic.calls_per_hour * prices.WEB_ACL_CALL.usd
    used = (prices.WEB_ACL_MONTH, prices.WEB_ACL_RULE_MONTH, prices.WEB_ACL_CALL)
    return [CostRow(f"WAF ({rules} rules)", month, hour, used)]


def _canary(settings: EnvironmentSettings, traffic: Traffic) -> list[CostRow]:
    """An answer a minute, which is polled too, and the function that waits for it."""
    if settings.canary is None:
        return []
    seconds = CANARY_OUTPUT_TOKENS / traffic.frames_per_second
    canary_traffic = replace(
        traffic,
        answer_seconds=seconds,
        input_tokens=_CANARY_INPUT_TOKENS,
        output_tokens=CANARY_OUTPUT_TOKENS,
        answers_per_session=1,
        polled=1,
    )
    parts = [_functions(settings, canary_traffic), _edge(canary_traffic)]
    if settings.inference.kind == "bedrock":
        parts.append(_bedrock(canary_traffic))
    answer = (
        sum(part.hour_of_streams for part in parts) / canary_traffic.answers_per_hour
        + _answer_in_tables(canary_traffic)
        + seconds * _function_second(settings)
        + prices.FUNCTION_CALL.usd
    )
    used = {price for part in parts for price in part.prices}
    used |= {prices.TABLE_WRITE, prices.TABLE_READ}
    return [CostRow("Canary (an answer a minute)", 60 * HOURS_PER_MONTH * answer, 0, tuple(used))]


def _watching(settings: EnvironmentSettings, traffic: Traffic, resources: list[Any]) -> CostRow:
    alarms = [resource["Properties"] for resource in _of_type(resources, "AWS::CloudWatch::Alarm")]
    watched = sum(
        max(1, sum("MetricStat" in query for query in alarm.get("Metrics", ()))) for alarm in alarms
    )
    tracking = sum(
        resource["Properties"]["PolicyType"] == "TargetTrackingScaling"
        for resource in _of_type(resources, "AWS::ApplicationAutoScaling::ScalingPolicy")
    )
    composites = len(_of_type(resources, "AWS::CloudWatch::CompositeAlarm"))
    dashboards = len(_of_type(resources, "AWS::CloudWatch::Dashboard"))
    metrics = PUBLISHED if settings.canary is None else (*PUBLISHED, *CANARY_METRICS)
    # The others are not published without traffic. The canary is traffic.
    at_rest = sum(settings.canary is not None or m.kind in _SENT_AT_REST for m in metrics)
    task_hour = 60 * prices.METRIC_CALL.usd  # each task sends all of a minute in one call
    month = (
        at_rest * prices.METRIC_MONTH.usd
        + settings.handler.tasks_min * task_hour * HOURS_PER_MONTH
        + (watched + 2 * tracking)
        * prices.ALARM_METRIC_MONTH.usd  # target tracking makes an alarm for each direction
        + composites * prices.COMPOSITE_ALARM_MONTH.usd
        + dashboards * prices.DASHBOARD_MONTH.usd
    )
    what = f"CloudWatch ({len(metrics)} metrics, {len(alarms) + composites} alarms)"
    used = (
        prices.METRIC_MONTH,
        prices.METRIC_CALL,
        prices.ALARM_METRIC_MONTH,
        prices.COMPOSITE_ALARM_MONTH,
        prices.DASHBOARD_MONTH,
    )
    hour = (len(metrics) - at_rest) * prices.METRIC_MONTH.usd / HOURS_PER_MONTH + tasks_for(
        settings, traffic
    ) * task_hour
    return CostRow(what, month, hour, used)


def _logs(traffic: Traffic) -> CostRow:
    # A reader by polls has its lines from the functions.
    answer = (
        traffic.answer_line_bytes
        + _BYTES_PER_LINE
        + (1 - traffic.polled) * (traffic.reader_line_bytes + _BYTES_PER_LINE)
    )
    calls = traffic.polls_per_hour + traffic.sessions_per_hour
    logged = traffic.answers_per_hour * answer + calls * traffic.call_line_bytes
    return CostRow("Logs", 0, logged / 1e9 * prices.LOG_GB.usd, (prices.LOG_GB,))


def _flow_logs(
    settings: EnvironmentSettings, resources: list[Any], traffic: Traffic
) -> list[CostRow]:
    """The records of the load balancer's health checks, and of open connections under load."""
    if not _of_type(resources, "AWS::EC2::FlowLog"):
        return []
    handler = settings.handler
    checks = 3600 / handler.health_check_seconds * settings.network.zones * handler.tasks_min
    # Both directions, at the balancer and at the task; a connection also before the balancer.
    at_rest = 4 * checks * HOURS_PER_MONTH
    connections = traffic.streams * traffic.connections_per_stream
    in_an_hour = 6 * connections * _FLOW_RECORDS_PER_HOUR
    record = (_FLOW_RECORD_BYTES + _BYTES_PER_LINE) / 1e9 * prices.LOG_GB.usd
    return [CostRow("VPC flow logs", at_rest * record, in_an_hour * record, (prices.LOG_GB,))]


def _budgets(resources: list[Any]) -> list[CostRow]:
    count = len(_of_type(resources, "AWS::Budgets::Budget"))
    month = count * prices.BUDGET_DAY.usd * HOURS_PER_MONTH / 24
    return [CostRow("Budget (two of an account are free)", month, 0, (prices.BUDGET_DAY,))][:count]


def _keys(resources: list[Any]) -> CostRow:
    secrets = len(_of_type(resources, "AWS::SecretsManager::Secret"))
    keys = len(_of_type(resources, "AWS::KMS::Key"))
    month = secrets * prices.SECRET_MONTH.usd + keys * prices.KEY_MONTH.usd
    return CostRow(
        f"Secrets ({secrets}) and KMS keys ({keys})",
        month,
        0,
        (prices.SECRET_MONTH, prices.KEY_MONTH),
    )


def _bedrock(traffic: Traffic) -> CostRow:
    answer = (
        traffic.input_tokens * prices.BEDROCK_INPUT_TOKEN.usd
        + traffic.output_tokens * prices.BEDROCK_OUTPUT_TOKEN.usd
    )
    used = (prices.BEDROCK_INPUT_TOKEN, prices.BEDROCK_OUTPUT_TOKEN)
    return CostRow("Bedrock tokens", 0, traffic.answers_per_hour * answer, used)


def _gpus(settings: EnvironmentSettings, traffic: Traffic) -> CostRow:
    endpoint = settings.inference.sagemaker
    price = prices.GPU_HOUR.get(endpoint.instance_type)
    if price is None:
        what = f"SageMaker {endpoint.instance_type}: add its price to infra/estimates/prices.py"
        return CostRow(what, 0, 0, ())
    instances = traffic.streams / endpoint.requests_per_instance
    return CostRow(
        f"SageMaker {endpoint.instance_type}",
        endpoint.instances_min * price.usd * HOURS_PER_MONTH,
        instances * price.usd,
        (price,),
    )


def _of_type(resources: list[Any], name: str) -> list[Any]:
    return [resource for resource in resources if resource["Type"] == name]
