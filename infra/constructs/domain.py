"""The custom domain: its zone in Route 53, and certificates for it."""

from __future__ import annotations

from aws_cdk import Token
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_route53 as route53
from constructs import Construct

from evenflow.infra.settings.stack_settings import HostedZone


class DomainOutsideZoneError(Exception):
    """The zone can't have the record that proves a certificate for the address."""


def hosted_zone(scope: Construct, construct_id: str, zone: HostedZone) -> route53.IHostedZone:
    """The existing zone."""
    return route53.HostedZone.from_hosted_zone_attributes(
        scope, construct_id, hosted_zone_id=zone.zone_id, zone_name=zone.name
    )


def domain_certificate(
    scope: Construct, construct_id: str, domain_name: str, zone: HostedZone
) -> acm.Certificate:
    """A certificate in the stack's region. ACM proves the name by a record in the zone.

    Raises:
        DomainOutsideZoneError: the zone can't have that record, so ACM would wait for it for hours.
    """
    if not (Token.is_unresolved(zone.name) or f".{domain_name}".endswith(f".{zone.name}")):
        raise DomainOutsideZoneError(
            f"domain_name {domain_name!r} is not in the hosted zone {zone.name!r}, so the "
            "certificate with which CloudFront reaches the load balancer can't be proven: give the "
            "zone of the address, or an address in the zone"
        )
    return acm.Certificate(
        scope,
        construct_id,
        domain_name=domain_name,
        validation=acm.CertificateValidation.from_dns(
            hosted_zone(scope, f"{construct_id}Zone", zone)
        ),
    )
