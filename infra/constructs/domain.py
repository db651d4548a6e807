"""An address of one's own: its zone in Route 53, and certificates for it."""

from __future__ import annotations

from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_route53 as route53
from constructs import Construct

from evenflow.infra.stack_settings import HostedZone


def hosted_zone(scope: Construct, construct_id: str, zone: HostedZone) -> route53.IHostedZone:
    """The zone, which is there already."""
    return route53.HostedZone.from_hosted_zone_attributes(
        scope, construct_id, hosted_zone_id=zone.zone_id, zone_name=zone.name
    )


def domain_certificate(
    scope: Construct, construct_id: str, domain_name: str, zone: HostedZone
) -> acm.Certificate:
    """A certificate in the stack's region. ACM proves the name by a record in the zone."""
    return acm.Certificate(
        scope,
        construct_id,
        domain_name=domain_name,
        validation=acm.CertificateValidation.from_dns(
            hosted_zone(scope, f"{construct_id}Zone", zone)
        ),
    )
