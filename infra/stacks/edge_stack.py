"""evenflow-<env>-edge"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.edge.edge import Edge
from infra.settings import EnvironmentSettings
from infra.stacks.data_stack import DataStack
from infra.stacks.functions_stack import FunctionsStack
from infra.stacks.service_stack import ServiceStack


class EdgeStack(cdk.Stack):
    """The public address: CloudFront and the page."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        data: DataStack,
        service: ServiceStack,
        functions: FunctionsStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        edge = Edge(
            self,
            "Edge",
            settings=settings,
            load_balancer=service.load_balancer.load_balancer,
            http_api=functions.session_api.http_api,
            access_logs=data.access_logs,
        )
        address = settings.edge.domain_name or edge.distribution.distribution_domain_name
        self.url = f"https://{address}"
        cdk.CfnOutput(
            self,
            "Url",
            value=self.url,
            description="The page, and the base of every call",
        )
