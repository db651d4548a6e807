"""evenflow-<env>-service"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from infra.constructs.inference.model_access import ModelAccess
from infra.constructs.network.security_groups import SecurityGroups
from infra.constructs.service.handler_service import HandlerCluster, HandlerScaling, HandlerService
from infra.constructs.service.handler_task import handler_task, handler_task_role
from infra.constructs.service.load_balancer import LoadBalancer
from infra.constructs.service.workers import Workers
from infra.settings import EnvironmentSettings
from infra.stacks.data_stack import DataStack
from infra.stacks.network_stack import NetworkStack


class ServiceStack(cdk.Stack):
    """The handlers, the load balancer in front of them, and the workers behind them where the environment has some."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        network: NetworkStack,
        data: DataStack,
        model_access: ModelAccess,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        vpc, security_groups = network.network.vpc, network.network.security_groups
        cluster = HandlerCluster(self, "Cluster", settings=settings, vpc=vpc)
        workers = _workers(self, settings, cluster, security_groups, model_access)
        if workers is not None:
            model_access = workers.model_access
        # Another role with workers: tasks without them call the model until the last is replaced.
        role_id = "TaskRole" if workers is None else "TaskRoleWithWorkers"
        task = _handler_task(self, role_id, settings, cluster, data, model_access)
        self.load_balancer = LoadBalancer(
            self,
            "LoadBalancer",
            settings=settings,
            vpc=vpc,
            security_group=security_groups.balancer,
            access_logs=data.access_logs,
        )
        handlers = HandlerService(
            self,
            "Handlers",
            settings=settings,
            cluster=cluster,
            task=task,
            security_group=security_groups.handler,
            load_balancer=self.load_balancer,
            service_connect=None if workers is None else workers.service_connect.of_handlers,
        )
        if workers is not None:
            # A task learns when it starts which names there are.
            handlers.service.node.add_dependency(workers.service)
        HandlerScaling(self, "Scaling", settings=settings, service=handlers.service)


def _handler_task(
    stack: ServiceStack,
    role_id: str,
    settings: EnvironmentSettings,
    cluster: HandlerCluster,
    data: DataStack,
    model_access: ModelAccess,
) -> ecs.FargateTaskDefinition:
    role = handler_task_role(
        stack,
        role_id,
        cluster_name=cluster.name,
        service_name=cluster.service_name,
        tables=data.tables,
        dead_letters=data.dead_letters,
        requests=data.requests_arn,
        secrets=data.secrets,
        key=data.key,
        model_access=model_access,
    )
    return handler_task(
        stack,
        "Task",
        settings=settings,
        task_role=role,
        tables=data.tables,
        dead_letters=data.dead_letters,
        requests=data.requests,
        secrets=data.secrets,
        model_access=model_access,
    )


def _workers(
    stack: ServiceStack,
    settings: EnvironmentSettings,
    cluster: HandlerCluster,
    security_groups: SecurityGroups,
    model_access: ModelAccess,
) -> Workers | None:
    if settings.workers is None:
        return None
    return Workers(
        stack,
        "Workers",
        settings=settings,
        workers=settings.workers,
        cluster=cluster.cluster,
        security_groups=security_groups,
        model_access=model_access,
    )
