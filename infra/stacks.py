"""The stacks of one environment. Each holds constructs, and passes them what they need."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from evenflow.infra.constructs.data.buckets import BucketArn
from evenflow.infra.constructs.data.data import Data
from evenflow.infra.constructs.data.tables import table_name
from evenflow.infra.constructs.domain import domain_certificate
from evenflow.infra.constructs.edge.edge import Edge
from evenflow.infra.constructs.edge.firewall import Firewall
from evenflow.infra.constructs.functions.canary import Canary
from evenflow.infra.constructs.functions.functions import Functions
from evenflow.infra.constructs.inference.model import model_access
from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.constructs.network.network import Network
from evenflow.infra.constructs.network.task_network import TaskNetwork
from evenflow.infra.constructs.observability.observability import Observability
from evenflow.infra.constructs.observability.runbook_alarm import AlarmTopics
from evenflow.infra.constructs.observability.service_alarms import blocked_requests_alarm
from evenflow.infra.constructs.outputs import frontend_outputs, tenants_output
from evenflow.infra.constructs.service.handlers import Handlers
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.observability_settings import CanarySettings
from evenflow.infra.settings.regions import GLOBAL_REGION
from evenflow.infra.settings.stack_settings import FirewallSettings, HostedZone


class NetworkStack(cdk.Stack):
    """`evenflow-<env>-network`: the VPC of the load balancer and the tasks."""

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


class DataStack(cdk.Stack):
    """`evenflow-<env>-data`: tables, secrets, buckets, dead letters. They outlive deployments."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        self.data = Data(self, "Data", settings=settings)
        cdk.CfnOutput(
            self,
            "TenantsTable",
            value=self.data.tables.tenants.table_name,
            description="The table of tenants, for `evenflow tenants` (EVENFLOW_TENANTS_TABLE)",
        )
        cdk.CfnOutput(
            self,
            "UsageBucket",
            value=self.data.usage.bucket_name,
            description="The bucket with a file of each day's usage, below usage/",
        )
        self.requests_arn = self._exported(f"{settings.prefix}-requests-arn", self.data.requests)
        self.usage_arn = self._exported(f"{settings.prefix}-usage-arn", self.data.usage)

    def _exported(self, name: str, bucket: s3.IBucket) -> BucketArn:
        """Export under a fixed name, by which findings of cdk-nag are acknowledged."""
        return BucketArn(name, self.export_value(bucket.bucket_arn, name=name))


class InferenceStack(cdk.Stack):
    """`evenflow-<env>-sagemaker`: an endpoint with GPUs. It outlives the handlers that call it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        network: NetworkStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        self.model_access = model_access(self, settings, network.network.vpc)


class ServiceStack(cdk.Stack):
    """`evenflow-<env>-service`: the handlers, their load balancer and, if set, the workers.

    Args:
        endpoint: access to a model that has a stack of its own. None: it is made in this one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        network: NetworkStack,
        data: DataStack,
        endpoint: ModelAccess | None,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        vpc = network.network.vpc
        access = endpoint or model_access(self, settings, vpc)
        self.handlers = Handlers(
            self,
            "Service",
            settings=settings,
            task_network=TaskNetwork(
                self,
                "TaskNetwork",
                settings=settings,
                vpc=vpc,
                security_groups=network.network.security_groups,
            ),
            data=data.data,
            requests_arn=data.requests_arn,
            model_access=access,
        )
        # An output takes no import of another stack's.
        tenants_output(
            self,
            settings,
            table_name=table_name(settings, "Tenants"),
            model_name=access.name_in_log,
        )


class FunctionsStack(cdk.Stack):
    """`evenflow-<env>-functions`: the Lambda functions.

    They open sessions, answer long polls, rotate the signing keys and write usage files.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        data: DataStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env, termination_protection=settings.data.keep)
        self.functions = Functions(
            self, "Functions", settings=settings, data=data.data, usage_arn=data.usage_arn
        )


class CertificateStack(cdk.Stack):
    """`evenflow-<env>-<region>-certificate`: CloudFront's, in us-east-1 for any other region."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        domain_name: str,
        zone: HostedZone,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(region=GLOBAL_REGION),
            termination_protection=settings.data.keep,
            cross_region_references=True,
        )
        self.certificate = domain_certificate(self, "Certificate", domain_name, zone)


class FirewallStack(cdk.Stack):
    """`evenflow-<env>-<region>-firewall`: the web ACL, which CloudFront takes from us-east-1 alone.

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


class EdgeStack(cdk.Stack):
    """`evenflow-<env>-edge`: the public address, with CloudFront and the page."""

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


class CanaryStack(cdk.Stack):
    """`evenflow-<env>-canary`: it needs the public address, so it is deployed last."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        canary: CanarySettings,
        url: str,
        data: Data,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        Canary(
            self,
            "Canary",
            settings=settings,
            canary=canary,
            url=url,
            tenant_keys=data.secrets.tenant_keys,
            key=data.key,
        )


class ObservabilityStack(cdk.Stack):
    """`evenflow-<env>-observability`: alarms and the dashboard."""

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
