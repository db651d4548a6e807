"""The front of an EvenflowService: what clients call, CloudFront or a load balancer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_route53 as route53

from evenflow.stream_core.http.routes import ServedBy

_MOST_HOSTS = 3


class AddressNeededError(Exception):
    """The address that clients call isn't known."""


@dataclass(frozen=True, kw_only=True)
class CloudFront:
    """CloudFront, and a load balancer that only CloudFront reaches.

    Args:
        zone: a public zone of Route 53. It gets the records, and there is TLS everywhere.
        domain_name: the public name. None: that of the zone, or CloudFront's own.
        certificate, web_acl_arn: a certificate for the name, and a web ACL, both in us-east-1. They
            can be made here only if that is the stack's region.
    """

    zone: route53.IHostedZone | None = None
    domain_name: str | None = None
    certificate: acm.ICertificate | None = None
    web_acl_arn: str | None = None

    @property
    def proxies(self) -> int:
        """The number of proxies that write X-Forwarded-For."""
        return 2

    @property
    def servers(self) -> tuple[ServedBy, ...]:
        """The servers in AWS whose paths the load balancer sends to the handlers."""
        return (ServedBy.HANDLER,)


@dataclass(frozen=True, kw_only=True)
class OnlyLoadBalancer:
    """A load balancer that clients call directly, from the VPC or a connected network.

    Handlers answer `/session` and polls, too. There is no page.

    Args:
        domain_name: the name that clients call. Its record is yours to make. None: the load
            balancer's own name, by HTTP.
        certificate: a certificate for the name, in the stack's region, if the load balancer is made
            here. None: it speaks HTTP.
        clients: the peers that may reach a load balancer made here. Empty: all of the VPC.
    """

    domain_name: str | None = None
    certificate: acm.ICertificate | None = None
    clients: Sequence[ec2.IPeer] = ()

    @property
    def port(self) -> int:
        """The port of a load balancer made here."""
        return 443 if self.certificate else 80

    @property
    def proxies(self) -> int:
        """The number of proxies that write X-Forwarded-For."""
        return 1

    @property
    def servers(self) -> tuple[ServedBy, ...]:
        """The servers in AWS whose paths the load balancer sends to the handlers."""
        return ServedBy.HANDLER, ServedBy.SESSION_INIT, ServedBy.POLL_RESPONSE


Front = CloudFront | OnlyLoadBalancer


@dataclass(frozen=True, kw_only=True)
class ExistingListener:
    """An existing load balancer with its listener. Only rules are added to them.

    Args:
        priority: of the first rule. The next ones follow it; there are at most 10.
        hosts: the names in `Host` that are meant for Evenflow, at most three. Empty: all, so its
            paths are taken from other applications of the listener.
        https: whether it speaks HTTPS, with a certificate for the name that clients call.
        port: its port. None: 443 or 80.
        idle_timeout_seconds: after how long the load balancer cuts a silent connection.
    """

    load_balancer: elbv2.IApplicationLoadBalancer
    listener: elbv2.IApplicationListener
    priority: int
    hosts: Sequence[str] = ()
    https: bool = True
    port: int | None = None
    idle_timeout_seconds: int = 60

    def __post_init__(self) -> None:
        if len(self.hosts) > _MOST_HOSTS or sum(host.count("*") for host in self.hosts) > 1:
            raise ValueError(
                f"hosts must be at most {_MOST_HOSTS} with one `*` among them: a rule has five "
                "values and five wildcards, and paths need some of them"
            )

    @property
    def listener_port(self) -> int:
        """The port, which may be the default of the protocol."""
        return self.port or (443 if self.https else 80)


def check_address(front: Front, listener: ExistingListener | None) -> None:
    """Check that clients, or CloudFront, can call the load balancer by a name that it has.

    Raises:
        AddressNeededError: it speaks HTTPS, and no domain name is given. Or its rules are for other
            hosts than the one that clients call. Or CloudFront has a name without a certificate.
    """
    name = front.domain_name
    if isinstance(front, CloudFront) and name and not (front.zone or front.certificate):
        raise AddressNeededError(
            f"CloudFront serves {name} only with a certificate for it: give CloudFront zone, or "
            "certificate (of us-east-1)"
        )
    if isinstance(front, CloudFront) and name is None and front.zone is not None:
        name = front.zone.zone_name
    is_https = listener.https if listener else _has_certificate(front)
    if is_https and name is None:
        raise AddressNeededError(
            "the load balancer speaks HTTPS, and its certificate must be for the name that clients "
            "call: give the front that domain_name, or the listener https=False"
        )
    hosts = [host.lower() for host in listener.hosts] if listener else []
    if hosts and not any(fnmatchcase((name or "").lower(), host) for host in hosts):
        raise AddressNeededError(
            f"clients call {name or 'a name that AWS gives'}, and the listener's hosts are "
            f"{', '.join(hosts)}: no request would reach a handler. Give the front one of them as "
            "domain_name"
        )


def _has_certificate(front: Front) -> bool:
    return isinstance(front, OnlyLoadBalancer) and front.certificate is not None


def load_balancer_url(
    front: OnlyLoadBalancer,
    load_balancer: elbv2.IApplicationLoadBalancer,
    listener: ExistingListener | None,
) -> str:
    """The address by which clients call a load balancer."""
    is_https = listener.https if listener else front.certificate is not None
    port = listener.port if listener else None
    is_default_port = port in (None, 443 if is_https else 80)
    host = front.domain_name or load_balancer.load_balancer_dns_name
    return f"http{'s' if is_https else ''}://{host}{'' if is_default_port else f':{port}'}"
