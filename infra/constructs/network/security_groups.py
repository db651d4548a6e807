"""The security groups of the VPC."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from evenflow.infra.constructs.front import ExistingListener, Front, OnlyLoadBalancer
from evenflow.infra.settings.environment_settings import EnvironmentSettings

HANDLER_PORT, WORKER_PORT = 8080, 50051
HTTP_PORT, HTTPS_PORT = 80, 443
_HTTPS = ec2.Port.tcp(443)


def private_subnets(vpc: ec2.IVpc) -> ec2.SubnetSelection:
    """The load balancer's subnets: private ones, isolated ones where there are none."""
    return ec2.SubnetSelection(
        subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS
        if vpc.private_subnets
        else ec2.SubnetType.PRIVATE_ISOLATED
    )


class SecurityGroups(Construct):
    """The groups of balancer, handlers and endpoints, in the VPC's stack: no stack refers back.

    They and their rules depend on no setting. This stack is deployed first, and later stacks still
    use what it would remove.

    Args:
        own_vpc: whether Evenflow makes the VPC. In an existing one, tasks reach AWS by its NAT or
            endpoints.
        front: what calls the load balancer. None: CloudFront.
        existing: the listener of an existing load balancer, which has its own group.
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
            if own_vpc
            else None
        )
        self.balancers = [] if existing else self._balancers(settings, front)
        if existing is not None and not isinstance(front, OnlyLoadBalancer):
            existing.load_balancer.connections.allow_from(
                ec2.Peer.prefix_list(settings.region.cloudfront),
                ec2.Port.tcp(existing.listener_port),
                "VPC origin of CloudFront",
            )
        self.handler.connections.allow_internally(
            ec2.Port.tcp(HANDLER_PORT), "Following a response of another task"
        )
        self._allow_aws()

    def _balancers(
        self, settings: EnvironmentSettings, front: Front | None
    ) -> list[ec2.SecurityGroup]:
        """The groups of a load balancer of our own."""
        if isinstance(front, OnlyLoadBalancer):
            group = self._group("Balancer", "Load balancer: reached by clients in the VPC")
            for client in front.clients or (ec2.Peer.ipv4(settings.network.cidr),):
                group.add_ingress_rule(client, ec2.Port.tcp(front.port), "Clients")
            groups = [group]
        else:
            # Two groups, since a rule with CloudFront's prefix list counts as 55 of a group's 60.
            groups = [
                self._group(name, "Load balancer: reached by CloudFront alone")
                for name in ("Balancer", "BalancerTls")
            ]
            for group, port in zip(groups, (HTTP_PORT, HTTPS_PORT), strict=True):
                group.add_ingress_rule(
                    ec2.Peer.prefix_list(settings.region.cloudfront),
                    ec2.Port.tcp(port),
                    "VPC origin of CloudFront",
                )
        for group in groups:
            group.connections.allow_to(
                self.handler, ec2.Port.tcp(HANDLER_PORT), "Requests and health checks"
            )
        return groups

    def _allow_aws(self) -> None:
        if self.endpoints is not None:
            self.endpoints.add_ingress_rule(self.handler, _HTTPS, "AWS APIs")
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
    settings: EnvironmentSettings,
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
    if security_groups.endpoints is None or settings.network.tasks_are_public:
        group.add_egress_rule(ec2.Peer.any_ipv4(), _HTTPS, "AWS APIs")
    else:
        group.add_egress_rule(security_groups.endpoints, _HTTPS, "AWS APIs")
        security_groups.endpoints.add_ingress_rule(group, _HTTPS, "AWS APIs", remote_rule=True)
    group.add_egress_rule(ec2.Peer.prefix_list(settings.region.s3), _HTTPS, "S3 (layers of images)")
    return group
