"""How many handlers run."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from infra.constructs.evenflow_metric import evenflow_metric
from infra.settings import EnvironmentSettings
from stream_core.metric_catalogue import ACTIVE_CONNECTIONS, Statistic


class HandlerScaling(Construct):
    """Holds connections and CPU per task, and adds several tasks at once when connections come in a surge."""

    def __init__(
        self, scope: Construct, construct_id: str, *, settings: EnvironmentSettings, service: ecs.FargateService
    ) -> None:
        super().__init__(scope, construct_id)
        handler = settings.handler
        connections = evenflow_metric(ACTIVE_CONNECTIONS, settings, Statistic.AVERAGE)
        # A task that leaves takes minutes for it and its readers move: out soon, in late.
        out, back = Duration.seconds(60), Duration.minutes(10)
        # A new task counts only when it has started (up to 60 s) and published its first minute: sooner, the same surge would
        # be answered twice.
        surge = Duration.minutes(3)
        count = service.auto_scale_task_count(min_capacity=handler.tasks_min, max_capacity=handler.tasks_max)
        count.scale_to_track_custom_metric(
            "Connections",
            metric=connections,
            target_value=handler.connections_per_task,
            scale_out_cooldown=out,
            scale_in_cooldown=back,
        )
        count.scale_on_cpu_utilization(
            "Cpu",
            target_utilization_percent=handler.cpu_percent,
            scale_out_cooldown=out,
            scale_in_cooldown=back,
        )
        count.scale_on_metric(
            "Surge",
            metric=connections,
            scaling_steps=[
                scaling.ScalingInterval(lower=handler.connections_per_task + above, change=tasks)
                for above, tasks in handler.surge_connections
            ],
            adjustment_type=scaling.AdjustmentType.CHANGE_IN_CAPACITY,
            evaluation_periods=1,
            cooldown=surge,
        )
