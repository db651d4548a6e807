"""The internal load balancer: which paths go to the handlers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from aws_cdk import Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from evenflow.infra.constructs.domain import domain_certificate
from evenflow.infra.constructs.network.security_groups import (
    HANDLER_PORT,
    HTTP_PORT,
    HTTPS_PORT,
    private_subnets,
)
from evenflow.infra.settings import EnvironmentSettings
from evenflow.stream_core.protocol.routes import HEALTH, Origin, edge_patterns

STICKY_COOKIE, STICKY_SECONDS = "WSID", 3_600  # the handler sets it
# Quotas of a rule that AWS doesn't raise: values of conditions, and wildcards in them
# (docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html).
_VALUES_PER_RULE = _WILDCARDS_PER_RULE = 5


class LoadBalancer(Construct):
    """The load balancer, which only CloudFront reaches.

    Other paths, such as /metrics, get a 404. It always listens for HTTP, and for TLS as well where
    it has a certificate: CloudFront goes on using one until it has been deployed with the other.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        vpc: ec2.IVpc,
        security_groups: Sequence[ec2.ISecurityGroup],
        access_logs: s3.IBucket,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        self._vpc = vpc
        self.load_balancer = elbv2.ApplicationLoadBalancer(
            self,
            "Balancer",
            vpc=vpc,
            internet_facing=False,
            vpc_subnets=private_subnets(vpc),
            security_group=security_groups[0],
            idle_timeout=Duration.seconds(settings.handler.idle_timeout_seconds),
            drop_invalid_header_fields=True,
            deletion_protection=settings.data.keep,
        )
        for group in security_groups[1:]:
            self.load_balancer.add_security_group(group)
        self.load_balancer.log_access_logs(access_logs, prefix="load-balancer")
        self.target_group = self._target_group()
        self._listen("Listener", HTTP_PORT)
        edge = settings.edge
        if edge.domain_name and edge.hosted_zone:
            certificate = domain_certificate(
                self, "Certificate", edge.domain_name, edge.hosted_zone
            )
            self._listen("TlsListener", HTTPS_PORT, certificate)

    def _target_group(self) -> elbv2.ApplicationTargetGroup:
        handler = self._settings.handler
        return elbv2.ApplicationTargetGroup(
            self,
            "Http",
            vpc=self._vpc,
            port=HANDLER_PORT,
            protocol=elbv2.ApplicationProtocol.HTTP,
            target_type=elbv2.TargetType.IP,
            # Open sockets count as requests, so a new one goes to the task with the fewest.
            load_balancing_algorithm_type=elbv2.TargetGroupLoadBalancingAlgorithmType.LEAST_OUTSTANDING_REQUESTS,
            stickiness_cookie_name=STICKY_COOKIE,
            stickiness_cookie_duration=Duration.seconds(STICKY_SECONDS),
            deregistration_delay=Duration.seconds(handler.deregistration_delay_seconds),
            health_check=elbv2.HealthCheck(
                path=HEALTH.path,
                port=str(HANDLER_PORT),
                protocol=elbv2.Protocol.HTTP,
                interval=Duration.seconds(handler.health_check_seconds),
                timeout=Duration.seconds(5),
                healthy_threshold_count=2,
                unhealthy_threshold_count=3,
                # ECS kills a task that its load balancer finds unhealthy (containers-roadmap #480,
                # #1670), so a full or a leaving one must not be. The handler knows this checker by
                # its User-Agent, and answers it with 200. 503 can't be accepted here: an
                # application load balancer takes codes from 200 to 499.
                healthy_http_codes="200",
            ),
        )

    def _listen(
        self, construct_id: str, port: int, certificate: elbv2.IListenerCertificate | None = None
    ) -> None:
        listener = self.load_balancer.add_listener(
            construct_id,
            port=port,
            protocol=elbv2.ApplicationProtocol.HTTPS
            if certificate
            else elbv2.ApplicationProtocol.HTTP,
            certificates=[certificate] if certificate else None,
            ssl_policy=elbv2.SslPolicy.RECOMMENDED_TLS if certificate else None,
            open=False,
            default_action=elbv2.ListenerAction.fixed_response(
                404,
                content_type="application/json",
                message_body=(
                    '{"error":{"type":"not_found_error","code":"path_not_found","message":"there '
                    'is nothing here"}}'
                ),
            ),
        )
        for number, patterns in enumerate(_rules(edge_patterns(Origin.HANDLER)), start=1):
            listener.add_action(
                f"Handlers{number}",
                priority=number,
                conditions=[elbv2.ListenerCondition.path_patterns(patterns)],
                action=elbv2.ListenerAction.forward([self.target_group]),
            )


def _rules(patterns: Iterable[str]) -> Iterator[list[str]]:
    """Divide patterns into as many rules as their quotas make necessary."""
    rule: list[str] = []
    for pattern in patterns:
        longer = [*rule, pattern]
        if len(longer) > _VALUES_PER_RULE or _wildcards(longer) > _WILDCARDS_PER_RULE:
            yield rule
            longer = [pattern]
        rule = longer
    yield rule


def _wildcards(patterns: Iterable[str]) -> int:
    return sum(pattern.count(sign) for pattern in patterns for sign in "*?")
