"""The ECS service of handlers: its deployments cut nobody off, and it is scaled by load."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.constructs.metrics import evenflow_metric
from infra.constructs.network.security_groups import HANDLER_PORT
from infra.constructs.service.handler_task import CONTAINER_NAME
from infra.constructs.service.load_balancer import LoadBalancer
from infra.settings import EnvironmentSettings
from stream_core.metrics.metric_catalogue import NODE_LOAD, Statistic


class HandlerCluster(Construct):
    """The cluster. Its name and its service's are fixed in advance, for the task's role."""

    def __init__(
        self, scope: Construct, construct_id: str, *, settings: EnvironmentSettings, vpc: ec2.IVpc
    ) -> None:
        super().__init__(scope, construct_id)
        insights = settings.handler.container_insights
        self.name = settings.prefix
        self.service_name = f"{settings.prefix}-handler"
        self.cluster = ecs.Cluster(
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
                self.cluster,
                "ECS4",
                "container insights are a setting: on in prod; our own metrics are everywhere",
            )


class HandlerService(Construct):
    """The service. A deployment is rolled back if tasks don't start or readers get errors."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        cluster: HandlerCluster,
        task: ecs.FargateTaskDefinition,
        security_group: ec2.ISecurityGroup,
        load_balancer: LoadBalancer,
        service_connect: ecs.ServiceConnectProps | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.rollback_alarm = self._rollback_alarm(settings, load_balancer.load_balancer)
        self.service = ecs.FargateService(
            self,
            "Service",
            service_name=cluster.service_name,
            cluster=cluster.cluster,
            task_definition=task,
            # Without a desired count: a deployment would undo what the autoscaling has added.
            assign_public_ip=False,
            vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            security_groups=[security_group],
            service_connect_configuration=service_connect,
            platform_version=ecs.FargatePlatformVersion.VERSION1_4,
            min_healthy_percent=100,
            max_healthy_percent=settings.handler.deployment_percent,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            deployment_alarms=ecs.DeploymentAlarmConfig(
                alarm_names=[self.rollback_alarm.alarm_name],
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

    def _rollback_alarm(
        self, settings: EnvironmentSettings, load_balancer: elbv2.ApplicationLoadBalancer
    ) -> cloudwatch.Alarm:
        # It is here and not with the other alarms, because the service refers to it.
        errors = load_balancer.metrics.http_code_target(
            elbv2.HttpCodeTarget.TARGET_5XX_COUNT,
            period=Duration.minutes(1),
            statistic=cloudwatch.Stats.SUM,
        )
        return errors.create_alarm(
            self,
            "RollbackAlarm",
            alarm_name=f"{settings.prefix}-rollback",
            alarm_description=(
                "Handlers answer 5xx: a deployment under way goes back to the one before."
            ),
            threshold=settings.handler.server_errors_per_minute,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=3,
            datapoints_to_alarm=2,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
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
