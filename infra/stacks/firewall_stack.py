"""evenflow-<env>-firewall, in us-east-1"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.edge.firewall import Firewall
from infra.settings import EnvironmentSettings
from infra.stack_settings import FirewallSettings

_REGION = "us-east-1"


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
            env=cdk.Environment(region=_REGION),
            termination_protection=settings.data.keep,
            cross_region_references=True,
        )
        self.web_acl_arn = Firewall(
            self, "Firewall", name=settings.prefix, firewall=firewall
        ).web_acl_arn
