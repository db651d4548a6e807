"""The security groups of the VPC."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.stack_settings import RegionSettings

HANDLER_PORT, LISTENER_PORT, WORKER_PORT = 8080, 80, 50051
_HTTPS = ec2.Port.tcp(443)


class SecurityGroups(Construct):
    """The groups of balancer, handlers and endpoints, in the VPC's stack: no stack refers back."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        region: RegionSettings,
        tasks_are_public: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self._vpc = vpc
        self.tasks_are_public = tasks_are_public
        self.balancer = self._group("Balancer", "Load balancer: reached by CloudFront alone")
        # Handlers reach each other, too. But a new description would replace the group, which a
        # deployed stack can't do.
        self.handler = self._group("Handler", "Handler tasks: reached by the load balancer alone")
        self.endpoints = self._group(
            "Endpoints", "VPC endpoints: reached by the handler tasks alone"
        )  # and by workers, likewise

        self.balancer.add_ingress_rule(
            ec2.Peer.prefix_list(region.cloudfront),
            ec2.Port.tcp(LISTENER_PORT),
            "CloudFront's VPC origin",
        )
        self.balancer.connections.allow_to(
            self.handler, ec2.Port.tcp(HANDLER_PORT), "Requests and health checks"
        )
        self.handler.connections.allow_internally(
            ec2.Port.tcp(HANDLER_PORT), "Following a response of another task"
        )
        if tasks_are_public:
            self.handler.add_egress_rule(ec2.Peer.any_ipv4(), _HTTPS, "AWS APIs")
        else:
            self.handler.connections.allow_to(self.endpoints, _HTTPS, "AWS APIs")
        for name, prefix_list in (
            ("DynamoDB", region.dynamodb),
            ("S3 (layers of images)", region.s3),
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
    region: RegionSettings,
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
    if security_groups.tasks_are_public:
        group.add_egress_rule(ec2.Peer.any_ipv4(), _HTTPS, "AWS APIs")
    else:
        group.add_egress_rule(security_groups.endpoints, _HTTPS, "AWS APIs")
        security_groups.endpoints.add_ingress_rule(group, _HTTPS, "AWS APIs", remote_rule=True)
    group.add_egress_rule(ec2.Peer.prefix_list(region.s3), _HTTPS, "S3 (layers of images)")
    return group
