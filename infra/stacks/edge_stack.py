"""evenflow-<env>-edge"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.data.data import Data
from evenflow.infra.constructs.edge.edge import Edge
from evenflow.infra.constructs.edge.outputs import frontend_outputs
from evenflow.infra.constructs.functions.functions import Functions
from evenflow.infra.constructs.service.handlers import Handlers
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.regions import GLOBAL_REGION
from evenflow.infra.stacks.firewall_stack import FirewallStack


class EdgeStack(cdk.Stack):
    """The public address: CloudFront and the page."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        data: Data,
        handlers: Handlers,
        functions: Functions,
        firewall: FirewallStack | None,
        env: cdk.Environment,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=env,
            termination_protection=settings.data.keep,
            # CloudFront's certificate and web ACL are in us-east-1, wherever this is.
            cross_region_references=settings.region.name != GLOBAL_REGION,
        )
        edge = Edge(
            self,
            "Edge",
            settings=settings,
            load_balancer=handlers.load_balancer.load_balancer,
            http_api=functions.http_api,
            access_logs=data.access_logs,
            edge_keys=data.secrets.edge_keys,
            web_acl_arn=firewall.web_acl_arn if firewall else settings.edge.web_acl_arn,
        )
        # The canary imports it if there is no domain. An export can't go before its imports.
        self.export_value(edge.distribution.distribution_domain_name)
        self.url = f"https://{edge.address}"
        frontend_outputs(self, settings, self.url)
