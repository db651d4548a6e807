"""Who may talk to the workers, and to whom they may."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.constructs.security_groups import WORKER_PORT, SecurityGroups
from infra.settings import RegionSettings

_HTTPS = ec2.Port.tcp(443)


def worker_security_group(
    scope: Construct, construct_id: str, *, vpc: ec2.IVpc, security_groups: SecurityGroups, region: RegionSettings
) -> ec2.SecurityGroup:
    """The group. It and all its rules stand beside the workers, so that the stack of the VPC is the same without them."""
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
    group.add_egress_rule(security_groups.endpoints, _HTTPS, "AWS APIs")
    security_groups.endpoints.add_ingress_rule(group, _HTTPS, "AWS APIs", remote_rule=True)
    group.add_egress_rule(ec2.Peer.prefix_list(region.s3), _HTTPS, "S3 (layers of images)")
    return group
