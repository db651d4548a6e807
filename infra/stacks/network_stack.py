"""evenflow-<env>-network"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.network.network import Network
from evenflow.infra.settings import EnvironmentSettings


class NetworkStack(cdk.Stack):
    """The VPC of the load balancer and the tasks."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        self.network = Network(self, "Network", settings=settings)
        # For workers, where there are some. It is always exported: an export can't go before its
        # users do.
        endpoints = self.network.security_groups.endpoints
        if endpoints is not None:
            self.export_value(endpoints.security_group_id)
