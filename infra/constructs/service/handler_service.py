"""The ECS service of handlers: deployments without cut connections, and scaling by load."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.metrics import MINUTE, evenflow_metric
from evenflow.infra.constructs.network.security_groups import HANDLER_PORT
from evenflow.infra.constructs.service.handler_task import CONTAINER_NAME
from evenflow.infra.constructs.service.load_balancer import LoadBalancer
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.metrics.metric_catalogue import (
    DELIVERY_JITTER,
    NODE_LOAD,
    RESPONSE_FAILURE_RATE,
    Metric,
    Statistic,
)


class RollbackAlarms(Construct):
    """Three alarms. Each says that in two of three minutes readers got less than they should.

    A failed stream has the status 200, so 5xx counts miss it: the answers' own metrics show it.
    They have the thresholds of their alarms and fewer minutes, since a deployment is watched for
    minutes only. Old and new handlers publish them together, so with few new tasks among many old
    ones only the load balancer's count shows a task that rejects requests.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        target_group: elbv2.IApplicationTargetGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        errors = target_group.metrics.http_code_target(
            elbv2.HttpCodeTarget.TARGET_5XX_COUNT, period=MINUTE, statistic=cloudwatch.Stats.SUM
        )
        self.alarms = [
            self._alarm("errors", errors, settings.handler.server_errors_per_minute, "answer 5xx"),
            self._of_metric("answers", RESPONSE_FAILURE_RATE, "let answers fail"),
            self._of_metric("evenness", DELIVERY_JITTER, "deliver unevenly"),
        ]

    @property
    def names(self) -> list[str]:
        """The names of the alarms that the service watches."""
        return [alarm.alarm_name for alarm in self.alarms]

    def _of_metric(self, name: str, metric: Metric, fault: str) -> cloudwatch.Alarm:
        assert metric.alarm is not None  # noqa: S101 - each of both has one
        watched = evenflow_metric(metric, self._settings, metric.alarm.statistic)
        return self._alarm(name, watched, metric.alarm.above, fault)

    def _alarm(
        self, name: str, metric: cloudwatch.IMetric, threshold: float, fault: str
    ) -> cloudwatch.Alarm:
        return cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._settings.prefix}-rollback-{name}",
            alarm_description=(
                f"Handlers {fault}: a deployment under way goes back to the one before."
            ),
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=3,
            datapoints_to_alarm=2,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )


class HandlerCluster(Construct):
    """The cluster. Its name and its service's are fixed in advance, for the task's role.

    Args:
        cluster: one that is there already. None: one of our own.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        vpc: ec2.IVpc,
        cluster: ecs.ICluster | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.name = settings.prefix if cluster is None else cluster.cluster_name
        self.service_name = f"{settings.prefix}-handler"
        self.cluster = self._own(settings, vpc) if cluster is None else cluster

    def _own(self, settings: EnvironmentSettings, vpc: ec2.IVpc) -> ecs.ICluster:
        insights = settings.handler.container_insights
        cluster = ecs.Cluster(
            self,
            "Cluster",
            cluster_name=self.name,
            vpc=vpc,
            container_insights_v2=ecs.ContainerInsights.ENABLED
            if insights
            else ecs.ContainerInsights.DISABLED,
        )
        if not insights:
            acknowledge(
                cluster,
                "ECS4",
                "container insights are a setting; alarms read our own metrics",
            )
        return cluster


class HandlerService(Construct):
    """The service. A deployment is rolled back if tasks don't start or readers are served worse."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        cluster: HandlerCluster,
        task: ecs.FargateTaskDefinition,
        security_group: ec2.ISecurityGroup,
        subnets: ec2.SubnetSelection,
        load_balancer: LoadBalancer,
        service_connect: ecs.ServiceConnectProps | None,
    ) -> None:
        super().__init__(scope, construct_id)
        rollback = RollbackAlarms(
            self, "Rollback", settings=settings, target_group=load_balancer.target_group
        )
        self.service = ecs.FargateService(
            self,
            "Service",
            service_name=cluster.service_name,
            cluster=cluster.cluster,
            task_definition=task,
            # Without a desired count: a deployment would undo what the autoscaling has added.
            assign_public_ip=settings.network.tasks_are_public,
            vpc_subnets=subnets,
            security_groups=[security_group],
            service_connect_configuration=service_connect,
            platform_version=ecs.FargatePlatformVersion.VERSION1_4,
            min_healthy_percent=100,
            max_healthy_percent=settings.handler.deployment_percent,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            deployment_alarms=ecs.DeploymentAlarmConfig(
                alarm_names=rollback.names,
                behavior=ecs.AlarmBehavior.ROLLBACK_ON_ALARM,
            ),
            health_check_grace_period=Duration.seconds(60),
            # Moving a task to another zone would cut off everyone it serves.
            availability_zone_rebalancing=ecs.AvailabilityZoneRebalancing.DISABLED,
            enable_execute_command=False,
            enable_ecs_managed_tags=True,
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
        )
        load_balancer.target_group.add_target(
            self.service.load_balancer_target(
                container_name=CONTAINER_NAME, container_port=HANDLER_PORT
            )
        )


class HandlerScaling(Construct):
    """Scales by the load that tasks publish, and adds several tasks at once in a surge.

    The load is the worst of all shares of a task's limits, so one target is enough.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        service: ecs.FargateService,
    ) -> None:
        super().__init__(scope, construct_id)
        handler = settings.handler
        load = evenflow_metric(NODE_LOAD, settings, Statistic.AVERAGE)
        # A new task counts only after it has started (up to 60 s) and published a minute. Any
        # sooner, the same surge would add tasks twice.
        surge = Duration.minutes(3)
        count = service.auto_scale_task_count(
            min_capacity=handler.tasks_min, max_capacity=handler.tasks_max
        )
        count.scale_to_track_custom_metric(
            "Load",
            metric=load,
            target_value=handler.load_percent,
            # A task needs minutes to leave, and its readers move: scale out soon and in late.
            scale_out_cooldown=Duration.seconds(60),
            scale_in_cooldown=Duration.minutes(10),
        )
        count.scale_on_metric(
            "Surge",
            metric=load,
            scaling_steps=[
                scaling.ScalingInterval(lower=handler.load_percent + above, change=tasks)
                for above, tasks in handler.surge_load
            ],
            adjustment_type=scaling.AdjustmentType.CHANGE_IN_CAPACITY,
            evaluation_periods=1,
            cooldown=surge,
        )
