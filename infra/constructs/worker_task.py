"""One worker task: the handler's image in its other role."""

from __future__ import annotations

from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.fargate_task import add_container, fargate_task
from infra.constructs.limit_variables import limit_variables
from infra.constructs.security_groups import WORKER_PORT
from infra.constructs.service_connect import PORT_NAME
from infra.constructs.token_source import TokenSource
from infra.settings import EnvironmentSettings, WorkerServiceSettings


def worker_task(
    scope: Construct,
    construct_id: str,
    *,
    settings: EnvironmentSettings,
    workers: WorkerServiceSettings,
    token_source: TokenSource,
) -> ecs.FargateTaskDefinition:
    """The task definition. Its role may call the model, and nothing else."""
    task_role = iam.Role(scope, "TaskRole", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    for statement in token_source.statements:
        task_role.add_to_policy(statement)
    task = fargate_task(scope, construct_id, settings=settings, role="worker", size=workers, task_role=task_role)
    container = add_container(
        scope,
        task,
        settings=settings,
        role="worker",
        size=workers,
        variables={
            "AWS_REGION": settings.region.name,
            "EVENFLOW_WORKER_HOST": "0.0.0.0",  # noqa: S104 - inside the task; its security group admits the handlers
            "EVENFLOW_WORKER_PORT": str(WORKER_PORT),
            **limit_variables(settings.limits, "drain_seconds"),
            **token_source.variables,
        },
        alive=["python", "-m", "fargate_handler.worker.probe"],
        command=["--role", "worker"],
    )
    container.add_port_mappings(
        ecs.PortMapping(name=PORT_NAME, container_port=WORKER_PORT, app_protocol=ecs.AppProtocol("grpc"))
    )
    return task
