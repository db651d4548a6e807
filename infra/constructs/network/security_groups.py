"""The security groups of the VPC."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from evenflow.infra.front import ExistingListener, Front, OnlyLoadBalancer
from evenflow.infra.regions import Region
from evenflow.infra.settings import EnvironmentSettings

HANDLER_PORT, WORKER_PORT = 8080, 50051
_HTTPS = ec2.Port.tcp(443)


def listener_port(settings: EnvironmentSettings, front: Front | None = None) -> int:
    """Our load balancer's port: that of TLS where it has a certificate."""
    if isinstance(front, OnlyLoadBalancer):
        return 443 if front.certificate else 80
    return 443 if settings.edge.hosted_zone else 80


def private_subnets(vpc: ec2.IVpc) -> ec2.SubnetSelection:
    """The load balancer's subnets: private ones, isolated ones where there are none."""
    return ec2.SubnetSelection(
        subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS
        if vpc.private_subnets
        else ec2.SubnetType.PRIVATE_ISOLATED
    )


def task_subnets(settings: EnvironmentSettings, vpc: ec2.IVpc) -> ec2.SubnetSelection:
    """Where tasks stand."""
    if settings.network.tasks_are_public:
        return ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC)
    return private_subnets(vpc)


class SecurityGroups(Construct):
    """The groups of balancer, handlers and endpoints, in the VPC's stack: no stack refers back.

    Args:
        own_vpc: whether the VPC is ours. In one of somebody else's tasks reach AWS by the way out
            that it has.
        front: what calls the load balancer. None: CloudFront.
        existing: a load balancer that is there already, and has its own group.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        settings: EnvironmentSettings,
        own_vpc: bool,
        front: Front | None = None,
        existing: ExistingListener | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._vpc, self._region = vpc, settings.region
        # Handlers reach each other, too. But a new description would replace the group, which a
        # deployed stack can't do.
        self.handler = self._group("Handler", "Handler tasks: reached by the load balancer alone")
        # And by workers, likewise.
        self.endpoints = (
            self._group("Endpoints", "VPC endpoints: reached by the handler tasks alone")
            if own_vpc and not settings.network.tasks_are_public
            else None
        )
        self.balancer = None if existing else self._balancer(settings, front)
        if existing is not None and not isinstance(front, OnlyLoadBalancer):
            existing.load_balancer.connections.allow_from(
                ec2.Peer.prefix_list(settings.region.cloudfront),
                ec2.Port.tcp(existing.listener_port),
                "CloudFront VPC origin",
            )
        self.handler.connections.allow_internally(
            ec2.Port.tcp(HANDLER_PORT), "Following a response of another task"
        )
        self._allow_aws()

    def _balancer(self, settings: EnvironmentSettings, front: Front | None) -> ec2.SecurityGroup:
        port = ec2.Port.tcp(listener_port(settings, front))
        if isinstance(front, OnlyLoadBalancer):
            group = self._group("Balancer", "Load balancer: reached by clients in the VPC")
            for client in front.clients or (ec2.Peer.ipv4(settings.network.cidr),):
                group.add_ingress_rule(client, port, "Clients")
        else:
            group = self._group("Balancer", "Load balancer: reached by CloudFront alone")
            group.add_ingress_rule(
                ec2.Peer.prefix_list(settings.region.cloudfront), port, "CloudFront VPC origin"
            )
        group.connections.allow_to(
            self.handler, ec2.Port.tcp(HANDLER_PORT), "Requests and health checks"
        )
        return group

    def _allow_aws(self) -> None:
        if self.endpoints is None:
            self.handler.add_egress_rule(ec2.Peer.any_ipv4(), _HTTPS, "AWS APIs")
        else:
            self.handler.connections.allow_to(self.endpoints, _HTTPS, "AWS APIs")
        for name, prefix_list in (
            ("DynamoDB", self._region.dynamodb),
            ("S3 (layers of images)", self._region.s3),
        ):
            self.handler.add_egress_rule(ec2.Peer.prefix_list(prefix_list), _HTTPS, name)

    def _group(self, name: str, description: str) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self, name, vpc=self._vpc, description=description, allow_all_outbound=False
        )


def worker_security_group(
    scope: Construct,
    construct_id: str,
    *,
    vpc: ec2.IVpc,
    security_groups: SecurityGroups,
    region: Region,
) -> ec2.SecurityGroup:
    """The workers' group. Its rules are in the workers' stack: the VPC's is the same without it."""
    group = ec2.SecurityGroup(
        scope,
        construct_id,
        vpc=vpc,
        description="Worker tasks: reached by the handler tasks alone",
        allow_all_outbound=False,
    )
    port = ec2.Port.tcp(WORKER_PORT)
    group.add_ingress_rule(security_groups.handler, port, "Answers")
    security_groups.handler.add_egress_rule(group, port, "Answers", remote_rule=True)
    if security_groups.endpoints is None:
        group.add_egress_rule(ec2.Peer.any_ipv4(), _HTTPS, "AWS APIs")
    else:
        group.add_egress_rule(security_groups.endpoints, _HTTPS, "AWS APIs")
        security_groups.endpoints.add_ingress_rule(group, _HTTPS, "AWS APIs", remote_rule=True)
    group.add_egress_rule(ec2.Peer.prefix_list(region.s3), _HTTPS, "S3 (layers of images)")
    return group
