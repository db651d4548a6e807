"""evenflow-<env>-network"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.network.network import Network
from evenflow.infra.settings.environment_settings import EnvironmentSettings


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
        self._export_everything()

    def _export_everything(self) -> None:
        """Export what any setting may use: an export can't go before its imports."""
        vpc, groups = self.network.vpc, self.network.security_groups
        for group in (*groups.balancers, groups.handler, groups.endpoints):
            if group is not None:
                self.export_value(group.security_group_id)
        self.export_value(vpc.vpc_id)
        self.export_value(vpc.internet_gateway_id)
        for subnet in (*vpc.isolated_subnets, *vpc.public_subnets):
            self.export_value(subnet.subnet_id)
        for subnet in vpc.public_subnets:
            self.export_value(subnet.route_table.route_table_id)
