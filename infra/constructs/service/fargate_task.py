"""A task with one container of our image: no root, a read-only file system, no capabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from aws_cdk import Duration, Size
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.retention import log_group
from evenflow.infra.constructs.service.collector import add_collector, tracing_variables
from evenflow.infra.constructs.service.container_image import container_image
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.stack_settings import ServiceSettings


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
    """Add the task's container, and the collector of its traces where that is set.

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
