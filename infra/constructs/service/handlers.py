"""The handlers with their load balancer and, where the environment has them, the workers."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_ecs as ecs
from constructs import Construct

from evenflow.infra.constructs.data.buckets import BucketArn
from evenflow.infra.constructs.data.data import Data
from evenflow.infra.constructs.front import (
    CloudFront,
    ExistingListener,
    Front,
    OnlyLoadBalancer,
    load_balancer_url,
)
from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.constructs.network.task_network import TaskNetwork
from evenflow.infra.constructs.service.handler_service import (
    HandlerCluster,
    HandlerScaling,
    HandlerService,
)
from evenflow.infra.constructs.service.handler_task import handler_task, handler_task_role
from evenflow.infra.constructs.service.load_balancer import LoadBalancer
from evenflow.infra.constructs.service.workers import Workers
from evenflow.infra.constructs.variables import front_variables
from evenflow.infra.settings.environment_settings import EnvironmentSettings


class Handlers(Construct):
    """The cluster, its services, and their load balancer.

    Its `url` is the load balancer's address if clients call it, else None.

    Args:
        cluster: an existing one. None: a new one.
        front: what clients call.
        existing: an existing listener. None: a new load balancer.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        task_network: TaskNetwork,
        data: Data,
        requests_arn: BucketArn,
        model_access: ModelAccess,
        cluster: ecs.ICluster | None = None,
        front: Front | None = None,
        existing: ExistingListener | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings, self._data = settings, data
        front = front or CloudFront()
        vpc, security_groups = task_network.vpc, task_network.security_groups
        self.cluster = HandlerCluster(self, "Cluster", settings=settings, vpc=vpc, cluster=cluster)
        workers = self._workers(task_network, model_access)
        self.load_balancer = LoadBalancer(
            self,
            "LoadBalancer",
            settings=settings,
            vpc=vpc,
            security_groups=security_groups.balancers,
            access_logs=data.access_logs,
            front=front,
            existing=existing,
        )
        self.url = (
            load_balancer_url(front, self.load_balancer.load_balancer, existing)
            if isinstance(front, OnlyLoadBalancer)
            else None
        )
        self.task = self._task(
            workers,
            requests_arn,
            workers.model_access if workers else model_access,
            front_variables(settings, front.proxies, self.url),
        )
        handlers = HandlerService(
            self,
            "Handlers",
            settings=settings,
            cluster=self.cluster,
            task=self.task,
            security_group=security_groups.handler,
            subnets=task_network.subnets,
            load_balancer=self.load_balancer,
            service_connect=workers.service_connect.for_handlers if workers else None,
        )
        # New tasks start after the new way to AWS is made. The old way goes after the old tasks.
        handlers.service.node.add_dependency(task_network)
        if workers is not None:
            # A task learns the names in the namespace only when it starts.
            handlers.service.node.add_dependency(workers.service)
        HandlerScaling(self, "Scaling", settings=settings, service=handlers.service)

    def _workers(self, task_network: TaskNetwork, model_access: ModelAccess) -> Workers | None:
        if self._settings.workers is None:
            return None
        return Workers(
            self,
            "Workers",
            settings=self._settings,
            workers=self._settings.workers,
            cluster=self.cluster.cluster,
            task_network=task_network,
            model_access=model_access,
        )

    def _task(
        self,
        workers: Workers | None,
        requests_arn: BucketArn,
        model_access: ModelAccess,
        variables: Mapping[str, str],
    ) -> ecs.FargateTaskDefinition:
        data = self._data
        role = handler_task_role(
            self,
            # With workers it is another role: until they are replaced, handlers of the old one
            # call the model.
            "TaskRole" if workers is None else "TaskRoleWithWorkers",
            cluster_name=self.cluster.name,
            service_name=self.cluster.service_name,
            tables=data.tables,
            dead_letters=data.dead_letters,
            requests=requests_arn,
            secrets=data.secrets,
            key=data.key,
            model_access=model_access,
            filters=self._settings.filters,
        )
        return handler_task(
            self,
            "Task",
            settings=self._settings,
            task_role=role,
            tables=data.tables,
            dead_letters=data.dead_letters,
            requests=data.requests,
            secrets=data.secrets,
            model_access=model_access,
            front=variables,
        )
