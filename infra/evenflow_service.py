"""Evenflow in a CDK app of your own: one construct, in one stack."""

from __future__ import annotations

from typing import Literal

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from evenflow.infra.constructs.acknowledge import in_findings
from evenflow.infra.constructs.data.buckets import BucketArn
from evenflow.infra.constructs.data.data import Data
from evenflow.infra.constructs.data.keys import allow_use_of
from evenflow.infra.constructs.data.tables import Tables
from evenflow.infra.constructs.edge.edge import Edge
from evenflow.infra.constructs.edge.firewall import Firewall
from evenflow.infra.constructs.front import (
    CloudFront,
    ExistingListener,
    Front,
    OnlyLoadBalancer,
    check_address,
)
from evenflow.infra.constructs.functions.canary import Canary
from evenflow.infra.constructs.functions.functions import Functions, UpkeepFunctions
from evenflow.infra.constructs.inference.model import model_access
from evenflow.infra.constructs.network.network import Network
from evenflow.infra.constructs.network.security_groups import SecurityGroups
from evenflow.infra.constructs.network.task_network import TaskNetwork
from evenflow.infra.constructs.observability.observability import Observability
from evenflow.infra.constructs.outputs import frontend_outputs, tenants_output
from evenflow.infra.constructs.service.handlers import Handlers
from evenflow.infra.existing_parts import (
    edge_settings,
    existing_vpc,
    settings_for_vpc,
    with_idle_timeout,
)
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.observability_settings import (
    CanarySettings,
    check_somebody_is_paged,
)
from evenflow.infra.settings.regions import (
    GLOBAL_REGION,
    Region,
    UnknownRegionError,
    context_key,
    region_named,
)

_LONGEST_NAME = 27  # with `evenflow-` before it


class RegionNeededError(Exception):
    """The stack doesn't say its region, on which names and addresses of AWS depend."""


class WebAclNeededError(Exception):
    """The web ACL can't be made in the stack's region."""


class CanaryOutOfReachError(Exception):
    """The canary would have no way to the secret of the tenants' keys."""


def service_settings(
    scope: Construct, like: Literal["dev", "staging", "prod"] = "dev", /, **changes: object
) -> EnvironmentSettings:
    """Return the settings of an environment, for an EvenflowService in the region of a stack.

    Tenants need their key, unless `open_tenant=True` is among the changes.

    Args:
        scope: the stack of the service, or a construct in it.
        like: the environment whose settings apply where `changes` has none.
        changes: settings of EnvironmentSettings by their path: `image="…"`, `canary=None`,
            `**{"handler.tasks_max": 6}`. `region` is the entry of the stack's region, if neither
            Evenflow nor the context (`python -m evenflow.infra.region_lookup`) has one.

    Raises:
        RegionNeededError: the stack has no region.
        UnknownRegionError: the stack's region has no entry, or `region` is another region.
        WrongSettingError: a setting doesn't exist, or can't have that value.
    """
    region = _stack_region(scope, changes.pop("region", None))
    return environment(like, **({"open_tenant": False, "region": region} | changes))


class EvenflowService(Construct):
    """Handlers behind CloudFront or a load balancer, functions, tables, alarms and a dashboard.

    Without any argument it is as small as `dev` and answers with the demo model, but tenants need
    their key. The stack must name its region.

    Args:
        settings: sizes, limits, model and the rest: `service_settings(stack, "prod", image="…")`.
            Settings of prod and staging must say whom alarms page. None: those of `dev`.
        name: replaces the name in `settings`. It begins all names, after `evenflow-`. None: it is
            made of the construct's path, so two services differ.
        front: what clients call: `CloudFront(…)` or `OnlyLoadBalancer(…)`. What it says replaces
            `settings.edge`.
        listener: a listener of an existing load balancer in the VPC. None: a new load balancer.
            CloudFront reaches only internal ones.
        vpc: a VPC with private subnets that have a way to AWS. For CloudFront it has an internet
            gateway, and its zones are zones that VPC origins reach. None: the VPC of the cluster
            or of the listener, else a new one.
        cluster: an ECS cluster in that VPC. None: a new one.
        tables: existing tables with the keys that Tables describes. None: new ones.

    Attributes:
        url: the address that clients call.
        vpc: the VPC that it is in.
        data: tables, secrets, dead letters and buckets.
        handlers: their cluster, their task and the load balancer.
        functions: the functions, with their HTTP API behind CloudFront.
        edge: the CloudFront distribution, if there is one.
        observability: alarms, and the topics that they publish to.

    Raises:
        RegionNeededError: the stack has no region.
        UnknownRegionError: `settings` are for another region than the stack's.
        VpcNeededError, VpcCidrNeededError: the VPC or its address range isn't known.
        PrivateSubnetsNeededError: the VPC has public subnets alone.
        DomainOutsideZoneError: the domain name is not in the zone.
        NobodyIsPagedError: the settings are those of staging or prod, and alarms page nobody.
        CertificateNeededError, WebAclNeededError: the region is not us-east-1, and a certificate or
            web ACL, which CloudFront takes from there, was not given.
        AddressNeededError: the load balancer speaks HTTPS, and no domain name is given.
        CanaryOutOfReachError: the canary's VPC has no way to Secrets Manager.
        ValidationError: the settings contradict the existing load balancer or VPC.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings | None = None,
        name: str | None = None,
        front: Front | None = None,
        listener: ExistingListener | None = None,
        vpc: ec2.IVpc | None = None,
        cluster: ecs.ICluster | None = None,
        tables: Tables | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if settings is None:
            settings = service_settings(self)
        _check_region(self, settings.region)
        check_somebody_is_paged(settings.name, settings.alarms)
        self._front, self._listener = front or CloudFront(), listener
        check_address(self._front, listener)
        vpc = existing_vpc(vpc, cluster, listener)
        changes: dict[str, object] = {
            "name": name or _unique_name(self),
            "handler": with_idle_timeout(settings.handler, listener),
            "edge": edge_settings(settings.edge, self._front),
        }
        if vpc is not None:
            changes["network"] = settings_for_vpc(settings.network, vpc)
        self._settings = EnvironmentSettings.model_validate(settings.model_dump() | changes)
        self._build(vpc, cluster, tables)

    def _build(
        self, vpc: ec2.IVpc | None, cluster: ecs.ICluster | None, tables: Tables | None
    ) -> None:
        settings = self._settings
        self.vpc, security_groups = self._make_network(vpc)
        self.data = Data(self, "Data", settings=settings, tables=tables)
        access = model_access(self, settings, self.vpc)
        self.handlers = Handlers(
            self,
            "Service",
            settings=settings,
            task_network=TaskNetwork(
                self,
                "TaskNetwork",
                settings=settings,
                vpc=self.vpc,
                security_groups=security_groups,
            ),
            data=self.data,
            requests_arn=self._arn_of(self.data.requests),
            model_access=access,
            cluster=cluster,
            front=self._front,
            existing=self._listener,
        )
        self._make_front()
        frontend_outputs(self, settings, self.url)
        tenants_output(
            self,
            settings,
            table_name=self.data.tables.tenants.table_name,
            model_name=access.name_in_log,
        )
        self._watch(tables, security_groups)
        if tables is not None:
            self._allow_keys_of(tables)

    def _make_front(self) -> None:
        settings, usage_arn = self._settings, self._arn_of(self.data.usage)
        self.edge: Edge | None = None
        self.functions: UpkeepFunctions
        if self.handlers.url is not None:
            self.url = self.handlers.url
            self.functions = UpkeepFunctions(
                self, "Functions", settings=settings, data=self.data, usage_arn=usage_arn
            )
            return
        self.functions = functions = Functions(
            self, "Functions", settings=settings, data=self.data, usage_arn=usage_arn
        )
        self.edge = Edge(
            self,
            "Edge",
            settings=settings,
            load_balancer=self.handlers.load_balancer.load_balancer,
            http_api=functions.http_api,
            access_logs=self.data.access_logs,
            edge_keys=self.data.secrets.edge_keys,
            web_acl_arn=self._web_acl_arn(),
            existing=self._listener,
        )
        # In one stack nothing else says so: a listener is there before CloudFront moves to it.
        self.edge.node.add_dependency(self.handlers.load_balancer)
        self.url = f"https://{self.edge.address}"

    def _arn_of(self, bucket: s3.IBucket) -> BucketArn:
        return BucketArn(in_findings(self, bucket.bucket_arn), bucket.bucket_arn)

    def _watch(self, tables: Tables | None, security_groups: SecurityGroups) -> None:
        settings, balancer = self._settings, self.handlers.load_balancer
        if settings.canary is not None:
            self._add_canary(settings.canary, security_groups)
        self.observability = Observability(
            self,
            "Observability",
            settings=settings,
            load_balancer=balancer.load_balancer,
            target_group=balancer.target_group,
            http_api_id=self.functions.http_api.api_id
            if isinstance(self.functions, Functions)
            else None,
            cluster_name=self.handlers.cluster.name,
            tables=tables,
            shared_load_balancer=self._listener is not None,
        )

    def _add_canary(self, settings: CanarySettings, security_groups: SecurityGroups) -> None:
        is_in_vpc = self.edge is None
        if is_in_vpc and self._settings.network.tasks_are_public:
            raise CanaryOutOfReachError(
                "the canary asks from within the VPC, which has no way to Secrets Manager: give a "
                "vpc with one, or canary=None in the settings"
            )
        canary = Canary(
            self,
            "Canary",
            settings=self._settings,
            canary=settings,
            url=self.url,
            tenant_keys=self.data.secrets.tenant_keys,
            key=self.data.key,
            vpc=self.vpc if is_in_vpc else None,
        )
        if isinstance(self._front, OnlyLoadBalancer):
            port = ec2.Port.tcp(
                self._listener.listener_port if self._listener else self._front.port
            )
            balancer = self.handlers.load_balancer.load_balancer
            balancer.connections.allow_from(canary.function, port, "Canary")
            if security_groups.endpoints is not None:
                security_groups.endpoints.connections.allow_from(
                    canary.function, ec2.Port.tcp(443), "Canary"
                )

    def _make_network(self, vpc: ec2.IVpc | None) -> tuple[ec2.IVpc, SecurityGroups]:
        if vpc is None:
            network = Network(self, "Network", settings=self._settings, front=self._front)
            return network.vpc, network.security_groups
        groups = SecurityGroups(
            self,
            "SecurityGroups",
            vpc=vpc,
            settings=self._settings,
            own_vpc=False,
            front=self._front,
            existing=self._listener,
        )
        return vpc, groups

    def _web_acl_arn(self) -> str | None:
        edge, region = self._settings.edge, self._settings.region.name
        if edge.firewall is None:
            return edge.web_acl_arn
        if region != GLOBAL_REGION:
            raise WebAclNeededError(
                f"CloudFront takes its web ACL from {GLOBAL_REGION}, and this is {region}: make an "
                "evenflow.infra.constructs.edge.firewall.Firewall in a stack there, and name it "
                "with CloudFront(web_acl_arn=…)"
            )
        name = self._settings.global_prefix
        return Firewall(
            self,
            "Firewall",
            name=name,
            firewall=edge.firewall,
            log_retention_days=self._settings.log_retention_days,
            keep_log=self._settings.data.keep,
        ).web_acl_arn

    def _allow_keys_of(self, tables: Tables) -> None:
        functions = self.functions
        roles: list[iam.IRole] = [self.handlers.task.task_role, functions.usage_file.role]
        if isinstance(functions, Functions):
            roles += [functions.session_init.role, functions.poll_response.role]
        keys = {
            table.encryption_key.node.path: table.encryption_key
            for table in (tables.sessions, tables.ledger, tables.responses, tables.tenants)
            if table.encryption_key is not None
        }
        for role in roles:
            for key in keys.values():
                allow_use_of(key, role)


def _stack_region(scope: Construct, entry: object) -> Region:
    """The entry of the stack's region: `entry`, else from the context or the table."""
    region = _region_name(scope)
    if entry is None:
        key = context_key(region)
        return region_named(region, {key: scope.node.try_get_context(key)})
    override = region_named(entry) if isinstance(entry, str) else Region.model_validate(entry)
    _check_region(scope, override)
    return override


def _region_name(scope: Construct) -> str:
    stack = cdk.Stack.of(scope)
    if cdk.Token.is_unresolved(stack.region):
        raise RegionNeededError(
            f"the stack {stack.node.id} must name its region: "
            'cdk.Stack(app, …, env=cdk.Environment(region="us-east-1"))'
        )
    return stack.region


def _check_region(scope: Construct, region: Region) -> None:
    name = _region_name(scope)
    if region.name != name:
        raise UnknownRegionError(
            f"the stack {cdk.Stack.of(scope).node.id} is in {name}, and its settings are for "
            f"{region.name}: make them with service_settings(stack, …)"
        )


def _unique_name(scope: Construct) -> str:
    """A name of the construct's path, which differs from those of other paths."""
    return cdk.Names.unique_resource_name(scope, max_length=_LONGEST_NAME).lower()
