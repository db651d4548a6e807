"""The collector of traces beside a handler or a worker: takes OTLP, and gives X-Ray segments."""

from __future__ import annotations

import json
from typing import Any

from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.retention import log_group
from evenflow.infra.constructs.service.container_image import container_image
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.tracing_settings import TracingSettings

_OTLP = "127.0.0.1:4318"  # all containers of a task have one loopback
_READ_BY_COLLECTOR = "AOT_CONFIG_CONTENT"
_USED_PERCENT = 80  # of its memory: above that it takes no spans
_ACTIONS = ("xray:PutTraceSegments", "xray:PutTelemetryRecords")


def tracing_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """The variables of a container whose traces are exported. None where they are not."""
    if settings.tracing is None:
        return {}
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{_OTLP}",
        "OTEL_TRACES_SAMPLER": "traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": f"{settings.tracing.share:g}",
    }


def add_collector(
    scope: Construct, task: ecs.FargateTaskDefinition, settings: EnvironmentSettings, role: str
) -> None:
    """Add the collector to a task, and let the task write to X-Ray, where that is set.

    The task goes on without it: no answer ends for its trace.
    """
    tracing = settings.tracing
    if tracing is None:
        return
    task.add_to_task_role_policy(
        iam.PolicyStatement(actions=list(_ACTIONS), resources=["*"])  # they have no finer ones
    )
    acknowledge(
        task.task_role, "IAM5[Resource::*]", "X-Ray's and CloudWatch's writes have no resources"
    )
    parameters = ecs.LinuxParameters(scope, "CollectorParameters")
    parameters.drop_capabilities(ecs.Capability.ALL)
    task.add_container(
        "collector",
        image=container_image(scope, "CollectorImage", tracing.collector_image),
        essential=False,
        cpu=tracing.collector_cpu,
        memory_limit_mib=tracing.collector_memory_mib,
        environment={_READ_BY_COLLECTOR: json.dumps(_configuration(settings, tracing))},
        logging=ecs.LogDrivers.aws_logs(
            stream_prefix="task",
            log_group=log_group(
                scope, "CollectorLogs", f"/{settings.log_path}/{role}-collector", settings
            ),
            mode=ecs.AwsLogDriverMode.NON_BLOCKING,
        ),
        readonly_root_filesystem=True,
        linux_parameters=parameters,
    )


def _configuration(settings: EnvironmentSettings, tracing: TracingSettings) -> dict[str, Any]:
    """The collector's configuration, which it reads as YAML."""
    limit = tracing.collector_memory_mib * _USED_PERCENT // 100
    return {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": _OTLP}}}},
        "processors": {
            "memory_limiter": {"check_interval": "1s", "limit_mib": limit},
            "batch": {"timeout": "1s", "send_batch_max_size": 50},
        },
        "exporters": {"awsxray": {"region": settings.region.name}},
        "service": {
            "telemetry": {"logs": {"level": "warn"}},
            "pipelines": {
                "traces": {
                    "receivers": ["otlp"],
                    "processors": ["memory_limiter", "batch"],
                    "exporters": ["awsxray"],
                }
            },
        },
    }
