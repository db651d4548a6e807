"""evenflow-<env>-<region>-firewall, in us-east-1"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.edge.firewall import Firewall
from evenflow.infra.regions import GLOBAL_REGION
from evenflow.infra.settings import EnvironmentSettings
from evenflow.infra.stack_settings import FirewallSettings


class FirewallStack(cdk.Stack):
    """The web ACL. Those of CloudFront are in us-east-1 alone, so it has a stack of its own."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        firewall: FirewallSettings,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(region=GLOBAL_REGION),
            termination_protection=settings.data.keep,
            cross_region_references=settings.region.name != GLOBAL_REGION,
        )
        self.web_acl_arn = Firewall(
            self, "Firewall", name=settings.global_prefix, firewall=firewall
        ).web_acl_arn
