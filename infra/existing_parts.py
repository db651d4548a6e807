"""The settings of an EvenflowService that follow from existing parts of its app."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs

from evenflow.infra.constructs.front import ExistingListener, Front, OnlyLoadBalancer
from evenflow.infra.settings.stack_settings import (
    EdgeSettings,
    HandlerServiceSettings,
    HostedZone,
    NetworkSettings,
)


class VpcNeededError(Exception):
    """The VPC of a listener isn't known."""


class PrivateSubnetsNeededError(Exception):
    """The VPC has public subnets alone, and tasks need private ones."""


class VpcCidrNeededError(Exception):
    """The VPC's address range isn't known. Handlers recognize the load balancer by it."""


def existing_vpc(
    vpc: ec2.IVpc | None, cluster: ecs.ICluster | None, listener: ExistingListener | None
) -> ec2.IVpc | None:
    """The VPC of the app: the argument, or that of the cluster or of the load balancer.

    Raises:
        VpcNeededError: the listener's load balancer doesn't say its own.
    """
    if vpc is None and cluster is not None:
        return cluster.vpc
    if vpc is None and listener is not None:
        vpc = listener.load_balancer.vpc
        if vpc is None:
            raise VpcNeededError(
                "a listener is in a VPC, and its load balancer names none: give vpc"
            )
    return vpc


def settings_for_vpc(base: NetworkSettings, vpc: ec2.IVpc) -> NetworkSettings:
    """The settings of a foreign VPC, where no task has a public address.

    Raises:
        VpcCidrNeededError: it doesn't say its addresses.
        PrivateSubnetsNeededError: it has public subnets alone.
    """
    try:
        cidr = vpc.vpc_cidr_block
    except RuntimeError as error:  # jsii's, of ec2.Vpc.from_vpc_attributes
        raise VpcCidrNeededError(
            "the VPC doesn't say its addresses, from which handlers know the load balancer: give "
            "ec2.Vpc.from_vpc_attributes a vpc_cidr_block, or take ec2.Vpc.from_lookup"
        ) from error
    if not vpc.private_subnets and not vpc.isolated_subnets:
        raise PrivateSubnetsNeededError(
            "the VPC has no private subnets, where the load balancer and tasks are: give it some "
            "with a way to AWS (NAT or endpoints), or leave vpc out for one of our own"
        )
    return base.model_copy(update={"cidr": cidr, "endpoint_zones": max(base.endpoint_zones, 1)})


def with_idle_timeout(
    handler: HandlerServiceSettings, listener: ExistingListener | None
) -> HandlerServiceSettings:
    """The settings with the existing load balancer's time-out, which is then validated."""
    if listener is None:
        return handler
    return handler.model_copy(update={"idle_timeout_seconds": listener.idle_timeout_seconds})


def edge_settings(base: EdgeSettings, front: Front) -> EdgeSettings:
    """The settings of CloudFront, with what `front` says. Without CloudFront: no web ACL."""
    if isinstance(front, OnlyLoadBalancer):
        return base.model_copy(update={"firewall": None})
    zone, certificate = front.zone, front.certificate
    of_front = {
        "hosted_zone": zone and HostedZone(zone_id=zone.hosted_zone_id, name=zone.zone_name),
        "domain_name": front.domain_name or (zone and zone.zone_name),
        "certificate_arn": certificate and certificate.certificate_arn,
        "web_acl_arn": front.web_acl_arn,
    }
    overrides: dict[str, object] = {name: value for name, value in of_front.items() if value}
    if front.web_acl_arn:
        overrides["firewall"] = None
    return EdgeSettings.model_validate(base.model_dump() | overrides)
