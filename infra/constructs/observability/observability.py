"""Alarms and the dashboard."""

from __future__ import annotations

from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from evenflow.infra.constructs.data.tables import Tables
from evenflow.infra.constructs.observability.burn_alarms import BurnAlarm
from evenflow.infra.constructs.observability.catalogue_alarms import (
    CanaryAlarms,
    CatalogueAlarms,
    users_hurting_alarm,
)
from evenflow.infra.constructs.observability.dashboard import aws_rows, catalogue_rows, dashboard
from evenflow.infra.constructs.observability.monthly_budget import MonthlyBudget
from evenflow.infra.constructs.observability.runbook_alarm import AlarmTopics
from evenflow.infra.constructs.observability.service_alarms import (
    ServiceAlarms,
    blocked_requests_alarm,
)
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.regions import GLOBAL_REGION
from evenflow.stream_core.metrics.metric_catalogue import PROMISES


class Observability(Construct):
    """Alarms, the topics that they publish to, and the dashboard.

    Args:
        http_api_id: the HTTP API's id. None: clients call no functions.
        tables: existing tables, with their own names. None: Evenflow's.
        shared_load_balancer: whether other applications' requests reach the load balancer, too.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        load_balancer: elbv2.IApplicationLoadBalancer,
        target_group: elbv2.IApplicationTargetGroup,
        http_api_id: str | None,
        cluster_name: str,
        tables: Tables | None = None,
        shared_load_balancer: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        self.topics = AlarmTopics(self, "Topics", settings=settings)
        dollars = settings.alarms.monthly_budget_dollars
        if dollars is not None:
            MonthlyBudget(
                self,
                "MonthlyBudget",
                settings=settings,
                topics=self.topics,
                service=scope,
                dollars=dollars,
            )
        catalogue = CatalogueAlarms(self, "Catalogue", settings=settings, topics=self.topics)
        service = ServiceAlarms(
            self,
            "Service",
            settings=settings,
            topics=self.topics,
            load_balancer=load_balancer,
            target_group=target_group,
            http_api_id=http_api_id,
            cluster_name=cluster_name,
            shared_load_balancer=shared_load_balancer,
        )
        burning = [
            BurnAlarm(
                self,
                f"Burn-{promise.name}",
                settings=settings,
                topics=self.topics,
                promise=promise,
            )
            for promise in PROMISES
        ]
        windows = [window for promise in burning for window in promise.windows]
        alarms = [*catalogue.alarms, *service.alarms, *windows]
        if settings.canary is not None:
            alarms += CanaryAlarms(self, "Canary", settings=settings, topics=self.topics).alarms
        firewall = settings.edge.firewall
        if firewall is not None and settings.region.name == GLOBAL_REGION:
            alarms.append(
                blocked_requests_alarm(
                    self, settings=settings, topics=self.topics, firewall=firewall
                )
            )
        hurting = users_hurting_alarm(self, settings=settings, topics=self.topics, alarms=alarms)
        dashboard(
            self,
            settings=settings,
            alarms=[hurting, *(promise.composite for promise in burning), *alarms],
            rows=[
                *catalogue_rows(settings),
                *aws_rows(
                    settings,
                    load_balancer=load_balancer,
                    target_group=target_group,
                    http_api_id=http_api_id,
                    cluster_name=cluster_name,
                    tables=tables,
                ),
            ],
        )
