"""The workers, which call the model for the handlers: computing scales apart from connections."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_servicediscovery as servicediscovery
from constructs import Construct

from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.constructs.metrics import MINUTE, evenflow_metric
from evenflow.infra.constructs.network.security_groups import WORKER_PORT, worker_security_group
from evenflow.infra.constructs.network.task_network import TaskNetwork
from evenflow.infra.constructs.retention import log_group
from evenflow.infra.constructs.service.fargate_task import add_container, fargate_task
from evenflow.infra.constructs.variables import limit_variables
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.stack_settings import WorkerServiceSettings
from evenflow.stream_core.metrics.metric_catalogue import GENERATIONS_RUNNING, Statistic

_Policy = scaling.CfnScalingPolicy

PORT_NAME = "inference"
_ALIAS = "workers"


class ServiceConnect(Construct):
    """The namespace through which handlers reach workers, and the settings of both services."""

    address = f"{_ALIAS}:{WORKER_PORT}"
    """The address of the workers for handlers."""

    def __init__(
        self, scope: Construct, construct_id: str, *, settings: EnvironmentSettings
    ) -> None:
        super().__init__(scope, construct_id)
        # Without DNS: ECS configures the proxies.
        self._namespace = servicediscovery.HttpNamespace(
            self, "Namespace", name=settings.prefix, description="Handlers find workers here"
        )
        self._logs = log_group(self, "Logs", f"/{settings.log_path}/service-connect", settings)

    @property
    def for_handlers(self) -> ecs.ServiceConnectProps:
        """The settings of the handlers' service, which calls."""
        return ecs.ServiceConnectProps(
            namespace=self._namespace.namespace_arn, log_driver=self._log_driver("handler")
        )

    def for_workers(self, workers: WorkerServiceSettings) -> ecs.ServiceConnectProps:
        """The settings of the workers' service, which is called."""
        return ecs.ServiceConnectProps(
            namespace=self._namespace.namespace_arn,
            log_driver=self._log_driver("worker"),
            services=[
                ecs.ServiceConnectService(
                    port_mapping_name=PORT_NAME,
                    dns_name=_ALIAS,
                    port=WORKER_PORT,
                    # An answer is one request, with its own deadlines. By default it would be cut
                    # off after 15 s.
                    per_request_timeout=Duration.seconds(0),
                    idle_timeout=Duration.seconds(workers.idle_timeout_seconds),
                )
            ],
        )

    def _log_driver(self, role: str) -> ecs.LogDriver:
        return ecs.LogDrivers.aws_logs(
            stream_prefix=role, log_group=self._logs, mode=ecs.AwsLogDriverMode.NON_BLOCKING
        )


def worker_task(
    scope: Construct,
    construct_id: str,
    *,
    settings: EnvironmentSettings,
    workers: WorkerServiceSettings,
    model_access: ModelAccess,
) -> ecs.FargateTaskDefinition:
    """The workers' task. Its role may call the model, and nothing else."""
    task_role = iam.Role(
        scope, "TaskRole", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com")
    )
    model_access.allow(task_role)
    task = fargate_task(
        scope, construct_id, settings=settings, role="worker", size=workers, task_role=task_role
    )
    container = add_container(
        scope,
        task,
        settings=settings,
        role="worker",
        size=workers,
        variables={
            "AWS_REGION": settings.region.name,
            "EVENFLOW_WORKER_HOST": "0.0.0.0",  # noqa: S104 - only handlers reach it
            "EVENFLOW_WORKER_PORT": str(WORKER_PORT),
            **limit_variables(settings.limits, "drain_seconds"),
            **model_access.variables,
        },
        alive=["python", "-m", "evenflow.fargate_handler.inference.probe"],
        command=["--role", "worker"],
    )
    container.add_port_mappings(
        ecs.PortMapping(
            name=PORT_NAME, container_port=WORKER_PORT, app_protocol=ecs.AppProtocol("grpc")
        )
    )
    return task


def worker_service_name(settings: EnvironmentSettings) -> str:
    """The service's name, which is also in its metrics."""
    return f"{settings.prefix}-worker"


class Workers(Construct):
    """The service of workers, without a load balancer: handlers use Service Connect."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        workers: WorkerServiceSettings,
        cluster: ecs.ICluster,
        task_network: TaskNetwork,
        model_access: ModelAccess,
    ) -> None:
        super().__init__(scope, construct_id)
        self.service_connect = ServiceConnect(self, "Connect", settings=settings)
        self.model_access = model_access.behind(self.service_connect.address)
        """The handlers' access to the model: through the workers."""
        security_group = worker_security_group(
            self,
            "SecurityGroup",
            vpc=cluster.vpc,
            security_groups=task_network.security_groups,
            settings=settings,
        )
        self.service = ecs.FargateService(
            self,
            "Service",
            service_name=worker_service_name(settings),
            cluster=cluster,
            task_definition=worker_task(
                self, "Task", settings=settings, workers=workers, model_access=model_access
            ),
            # Without a desired count: a deployment would undo what the autoscaling has added.
            assign_public_ip=settings.network.tasks_are_public,
            vpc_subnets=task_network.subnets,
            security_groups=[security_group],
            service_connect_configuration=self.service_connect.for_workers(workers),
            platform_version=ecs.FargatePlatformVersion.VERSION1_4,
            min_healthy_percent=100,
            max_healthy_percent=workers.deployment_percent,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            availability_zone_rebalancing=ecs.AvailabilityZoneRebalancing.DISABLED,
            enable_execute_command=False,
            enable_ecs_managed_tags=True,
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
        )
        # With its rules: without the one for the endpoints no image is found, and the deployment
        # fails.
        self.service.node.add_dependency(security_group, task_network)
        WorkerScaling(
            self,
            "Scaling",
            settings=settings,
            workers=workers,
            service=self.service,
            cluster_name=cluster.cluster_name,
        )


def running_workers(settings: EnvironmentSettings, cluster_name: str) -> cloudwatch.Metric:
    """The number of running workers: each publishes its CPU once a minute.

    Only Container Insights publishes the number itself, and it costs.
    """
    return cloudwatch.Metric(
        namespace="AWS/ECS",
        metric_name="CPUUtilization",
        dimensions_map={
            "ClusterName": cluster_name,
            "ServiceName": worker_service_name(settings),
        },
        statistic=cloudwatch.Stats.SAMPLE_COUNT,
        period=MINUTE,
    )


class WorkerScaling(Construct):
    """Scales by CPU and by answers under way, whichever needs more tasks."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        workers: WorkerServiceSettings,
        service: ecs.FargateService,
        cluster_name: str,
    ) -> None:
        super().__init__(scope, construct_id)
        # A worker needs minutes to leave, and handlers begin anew what it can't finish: scale out
        # soon and in late.
        scale_out, scale_in = Duration.seconds(60), Duration.minutes(10)
        count = service.auto_scale_task_count(
            min_capacity=workers.tasks_min, max_capacity=workers.tasks_max
        )
        count.scale_on_cpu_utilization(
            "Cpu",
            target_utilization_percent=workers.cpu_percent,
            scale_out_cooldown=scale_out,
            scale_in_cooldown=scale_in,
        )
        target = service.node.find_child("TaskCount").node.find_child("Target")
        assert isinstance(target, scaling.ScalableTarget)  # noqa: S101 - what the L2 is made of
        # The L2 takes no metric math.
        _Policy(
            self,
            "Answers",
            policy_name="answers-per-worker",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target.scalable_target_id,
            target_tracking_scaling_policy_configuration=_Policy.TargetTrackingScalingPolicyConfigurationProperty(
                target_value=workers.answers_per_task,
                customized_metric_specification=_answers_per_worker(settings, cluster_name),
                scale_out_cooldown=scale_out.to_seconds(),
                scale_in_cooldown=scale_in.to_seconds(),
            ),
        )


def _answers_per_worker(
    settings: EnvironmentSettings, cluster_name: str
) -> scaling.CfnScalingPolicy.CustomizedMetricSpecificationProperty:
    """Answers under way per worker. Each handler publishes its number once a minute."""
    terms = {
        "answers": evenflow_metric(GENERATIONS_RUNNING, settings, Statistic.SUM),
        "workers": running_workers(settings, cluster_name),
    }
    return _Policy.CustomizedMetricSpecificationProperty(
        metrics=[
            *(_term(name, metric) for name, metric in terms.items()),
            _Policy.TargetTrackingMetricDataQueryProperty(
                id="load", expression="answers / workers", return_data=True
            ),
        ]
    )


def _term(
    name: str, metric: cloudwatch.Metric
) -> scaling.CfnScalingPolicy.TargetTrackingMetricDataQueryProperty:
    dimensions = metric.dimensions or {}
    return _Policy.TargetTrackingMetricDataQueryProperty(
        id=name,
        return_data=False,
        metric_stat=_Policy.TargetTrackingMetricStatProperty(
            stat=metric.statistic,
            metric=_Policy.TargetTrackingMetricProperty(
                namespace=metric.namespace,
                metric_name=metric.metric_name,
                dimensions=[
                    _Policy.TargetTrackingMetricDimensionProperty(name=key, value=value)
                    for key, value in dimensions.items()
                ],
            ),
        ),
    )
