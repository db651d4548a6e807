"""A task with one container of our image: no root, a read-only file system, no capabilities."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from aws_cdk import Duration, Size
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from evenflow.infra.assets.package_data import CHECKOUT
from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.retention import log_group
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.image_reference import EcrImage, ecr_image
from evenflow.infra.settings.observability_settings import TracingSettings
from evenflow.infra.settings.stack_settings import ServiceSettings

_DOCKERFILE = "fargate_handler/Dockerfile"


class ImageNotGivenError(Exception):
    """There is neither an image nor what one is built from."""


def container_image(
    scope: Construct, construct_id: str, reference: str | None
) -> ecs.ContainerImage:
    """The image of a reference, or one that CDK builds of fargate_handler/Dockerfile.

    Tasks get the right to pull from ECR. Other registries must allow anonymous pulls.

    Raises:
        ImageNotGivenError: there is no reference, and this is not a checkout.
    """
    if reference is None:
        return ecs.ContainerImage.from_docker_image_asset(_image_asset(scope, construct_id))
    image = ecr_image(reference)
    if image is None:
        return ecs.ContainerImage.from_registry(reference)
    return ecs.ContainerImage.from_ecr_repository(
        _repository(scope, construct_id, image), image.tag_or_digest
    )


def _image_asset(scope: Construct, construct_id: str) -> ecr_assets.DockerImageAsset:
    """.dockerignore says what may be in it."""
    if not (CHECKOUT / _DOCKERFILE).is_file():
        raise ImageNotGivenError(
            "an installed package can't build the handler's image: push one from a checkout, and "
            'name it: image="<account>.dkr.ecr.<region>.amazonaws.com/<repository>:<tag>"'
        )
    return ecr_assets.DockerImageAsset(
        scope,
        construct_id,
        directory=str(CHECKOUT),
        file=_DOCKERFILE,
        platform=ecr_assets.Platform.LINUX_ARM64,
    )


def _repository(scope: Construct, construct_id: str, image: EcrImage) -> ecr.IRepository:
    return ecr.Repository.from_repository_attributes(
        scope,
        construct_id,
        repository_name=image.repository,
        repository_arn=f"arn:aws:ecr:{image.region}:{image.account}:repository/{image.repository}",
    )


_OTLP_ADDRESS = "127.0.0.1:4318"  # all containers of a task have one loopback
_COLLECTOR_VARIABLE = "AOT_CONFIG_CONTENT"
_COLLECTOR_MEMORY_PERCENT = 80  # of its memory: above that it takes no spans
_XRAY_ACTIONS = ("xray:PutTraceSegments", "xray:PutTelemetryRecords")


def tracing_variables(settings: EnvironmentSettings) -> dict[str, str]:
    """The variables of a container whose traces are exported. Empty where they are not."""
    if settings.tracing is None:
        return {}
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{_OTLP_ADDRESS}",
        "OTEL_TRACES_SAMPLER": "traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": f"{settings.tracing.share:g}",
    }


def add_collector(
    scope: Construct, task: ecs.FargateTaskDefinition, settings: EnvironmentSettings, role: str
) -> None:
    """Add the collector to a task, and allow the task to write to X-Ray, if tracing is set.

    The task goes on if the collector stops.
    """
    tracing = settings.tracing
    if tracing is None:
        return
    task.add_to_task_role_policy(
        iam.PolicyStatement(actions=list(_XRAY_ACTIONS), resources=["*"])  # they have no finer ones
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
        environment={_COLLECTOR_VARIABLE: json.dumps(_collector_configuration(settings, tracing))},
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


def _collector_configuration(
    settings: EnvironmentSettings, tracing: TracingSettings
) -> dict[str, Any]:
    """The collector's configuration. JSON is valid YAML, which it reads."""
    limit = tracing.collector_memory_mib * _COLLECTOR_MEMORY_PERCENT // 100
    return {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": _OTLP_ADDRESS}}}},
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


def fargate_task(
    scope: Construct,
    construct_id: str,
    *,
    settings: EnvironmentSettings,
    role: Literal["handler", "worker"],
    size: ServiceSettings,
    task_role: iam.IRole,
) -> ecs.FargateTaskDefinition:
    """The task definition, without its container."""
    task = ecs.FargateTaskDefinition(
        scope,
        construct_id,
        family=f"{settings.prefix}-{role}",
        cpu=size.cpu,
        memory_limit_mib=size.memory_mib,
        runtime_platform=ecs.RuntimePlatform(
            cpu_architecture=ecs.CpuArchitecture.ARM64,
            operating_system_family=ecs.OperatingSystemFamily.LINUX,
        ),
        task_role=task_role,
    )
    acknowledge(
        task,
        "ECS2",
        "the variables hold names and sizes; secrets are named by ARN and read by the handler "
        "itself",
    )
    acknowledge(
        task.obtain_execution_role(),
        "IAM5[Resource::*]",
        "ecr:GetAuthorizationToken has no resources; CDK scopes the rest",
    )
    return task


def add_container(
    scope: Construct,
    task: ecs.FargateTaskDefinition,
    *,
    settings: EnvironmentSettings,
    role: Literal["handler", "worker"],
    size: ServiceSettings,
    variables: Mapping[str, str],
    alive: Sequence[str],
    command: Sequence[str] | None = None,
    system_controls: Mapping[str, str] | None = None,
) -> ecs.ContainerDefinition:
    """Add the task's container, and the collector of its traces if tracing is set.

    Args:
        alive: a command whose exit status says whether the process is alive.
        command: the image's arguments.
    """
    container = task.add_container(
        role,
        image=container_image(scope, "Image", settings.image),
        command=None if command is None else list(command),
        environment={**variables, **tracing_variables(settings)},
        logging=ecs.LogDrivers.aws_logs(
            stream_prefix="task",
            log_group=log_group(scope, "Logs", f"/{settings.log_path}/{role}", settings),
            # If a handler waited for its log, every stream would stutter.
            mode=ecs.AwsLogDriverMode.NON_BLOCKING,
            max_buffer_size=Size.mebibytes(16),
        ),
        health_check=_health_check(alive),
        readonly_root_filesystem=True,
        stop_timeout=Duration.seconds(size.stop_timeout_seconds),
        system_controls=[
            ecs.SystemControl(namespace=n, value=v) for n, v in system_controls.items()
        ]
        if system_controls
        else None,
        user="10001:10001",
        linux_parameters=_without_capabilities(scope),
    )
    add_collector(scope, task, settings, role)
    return container


def _health_check(alive: Sequence[str]) -> ecs.HealthCheck:
    return ecs.HealthCheck(
        command=["CMD", *alive],
        interval=Duration.seconds(30),
        timeout=Duration.seconds(5),
        retries=3,
        start_period=Duration.seconds(30),
    )


def _without_capabilities(scope: Construct) -> ecs.LinuxParameters:
    parameters = ecs.LinuxParameters(scope, "LinuxParameters")
    parameters.drop_capabilities(ecs.Capability.ALL)
    return parameters
