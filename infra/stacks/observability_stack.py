"""evenflow-<env>-observability"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from evenflow.infra.constructs.observability.observability import Observability
from evenflow.infra.settings.environment_settings import EnvironmentSettings


class ObservabilityStack(cdk.Stack):
    """Alarms and the dashboard."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        load_balancer: elbv2.IApplicationLoadBalancer,
        target_group: elbv2.IApplicationTargetGroup,
        http_api_id: str,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        Observability(
            self,
            "Observability",
            settings=settings,
            load_balancer=load_balancer,
            target_group=target_group,
            http_api_id=http_api_id,
            cluster_name=settings.prefix,
        )
