"""evenflow-<env>-<region>-firewall, in us-east-1"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.edge.firewall import Firewall
from evenflow.infra.constructs.observability.blocked_requests import blocked_requests_alarm
from evenflow.infra.constructs.observability.runbook_alarm import AlarmTopics
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.regions import GLOBAL_REGION
from evenflow.infra.settings.stack_settings import FirewallSettings


class FirewallStack(cdk.Stack):
    """The web ACL. CloudFront takes it from us-east-1 alone, so it has a stack of its own.

    An alarm watches metrics of its own region, and calls a topic there. So for an environment in
    another region, the alarm and a topic are here.
    """

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
            self,
            "Firewall",
            name=settings.global_prefix,
            firewall=firewall,
            log_retention_days=settings.log_retention_days,
            keep_log=settings.data.keep,
        ).web_acl_arn
        if settings.region.name != GLOBAL_REGION:
            topics = AlarmTopics(self, "Topics", settings=settings, prefix=settings.global_prefix)
            blocked_requests_alarm(self, settings=settings, topics=topics, firewall=firewall)
