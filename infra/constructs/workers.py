"""The ECS service of workers, which call the model for the handlers: computing scales apart from connections."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from infra.constructs.security_groups import SecurityGroups
from infra.constructs.service_connect import ServiceConnect
from infra.constructs.token_source import TokenSource
from infra.constructs.worker_security_group import worker_security_group
from infra.constructs.worker_task import worker_task
from infra.settings import EnvironmentSettings, WorkerServiceSettings


def worker_service_name(settings: EnvironmentSettings) -> str:
    """The service, as its metrics call it."""
    return f"{settings.prefix}-worker"


class Workers(Construct):
    """No load balancer: handlers come through Service Connect."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        workers: WorkerServiceSettings,
        cluster: ecs.ICluster,
        security_groups: SecurityGroups,
        token_source: TokenSource,
    ) -> None:
        super().__init__(scope, construct_id)
        self.service_connect = ServiceConnect(self, "Connect", settings=settings)
        self.token_source = token_source.behind(self.service_connect.address)
        """The handlers'."""
        security_group = worker_security_group(
            self, "SecurityGroup", vpc=cluster.vpc, security_groups=security_groups, region=settings.region
        )
        self.service = ecs.FargateService(
            self,
            "Service",
            service_name=worker_service_name(settings),
            cluster=cluster,
            task_definition=worker_task(self, "Task", settings=settings, workers=workers, token_source=token_source),
            # No desired count: see the handlers' service.
            assign_public_ip=False,
            vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            security_groups=[security_group],
            service_connect_configuration=self.service_connect.of_workers(workers),
            platform_version=ecs.FargatePlatformVersion.VERSION1_4,
            min_healthy_percent=100,
            max_healthy_percent=workers.deployment_percent,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            availability_zone_rebalancing=ecs.AvailabilityZoneRebalancing.DISABLED,
            enable_execute_command=False,
            enable_ecs_managed_tags=True,
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
        )
        # Its rules too: without the one of the endpoints no image is found, and the deployment fails.
        self.service.node.add_dependency(security_group)
        self._scale(workers)

    def _scale(self, workers: WorkerServiceSettings) -> None:
        count = self.service.auto_scale_task_count(min_capacity=workers.tasks_min, max_capacity=workers.tasks_max)
        # A worker that leaves takes minutes for it, and handlers begin what it can't finish anew: out soon, in late.
        count.scale_on_cpu_utilization(
            "Cpu",
            target_utilization_percent=workers.cpu_percent,
            scale_out_cooldown=Duration.seconds(60),
            scale_in_cooldown=Duration.minutes(10),
        )
