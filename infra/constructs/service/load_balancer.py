"""The load balancer, new or existing: the rules that route paths to the handlers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from aws_cdk import Duration
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from evenflow.infra.constructs.domain import domain_certificate
from evenflow.infra.constructs.front import ExistingListener, Front, OnlyLoadBalancer
from evenflow.infra.constructs.network.security_groups import (
    HANDLER_PORT,
    HTTP_PORT,
    HTTPS_PORT,
    private_subnets,
)
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.http.routes import HEALTH, edge_patterns

_VALUES_PER_RULE = _WILDCARDS_PER_RULE = 5


def path_rules(patterns: Iterable[str], hosts: Sequence[str] = ()) -> list[list[str]]:
    """The patterns of each rule, without those that another one covers.

    Args:
        hosts: values of each rule's host condition, which count towards the quotas.
    """
    all_patterns = list(patterns)
    rules = list[list[str]]()
    for pattern in all_patterns:
        if any(fnmatchcase(pattern, other) for other in all_patterns if other != pattern):
            continue
        if not rules or not _has_room([*hosts, *rules[-1], pattern]):
            rules.append([])
        rules[-1].append(pattern)
    return rules


def _has_room(values: list[str]) -> bool:
    wildcards = sum(value.count(sign) for value in values for sign in "*?")
    return len(values) <= _VALUES_PER_RULE and wildcards <= _WILDCARDS_PER_RULE


STICKY_COOKIE, STICKY_SECONDS = "WSID", 3_600  # the handler sets it


class LoadBalancer(Construct):
    """The load balancer with its rules and the handlers' target group.

    A load balancer of our own answers 404 for other paths, such as /metrics. Behind CloudFront it
    always listens for HTTP, and also for TLS if it has a certificate: CloudFront uses one of them
    until it is deployed with the other.

    Args:
        security_groups: for a new load balancer.
        existing: the listener that gets the rules. None: a new load balancer.
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
        front: Front,
        existing: ExistingListener | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings, self._vpc, self._front = settings, vpc, front
        self.load_balancer: elbv2.IApplicationLoadBalancer
        if existing is None:
            self.load_balancer = balancer = self._make_balancer(security_groups, access_logs)
            self.target_group = self._target_group()
            self._listen(balancer)
        else:
            self.load_balancer = existing.load_balancer
            self.target_group = self._target_group()
            self._route_existing(existing)

    def _make_balancer(
        self, security_groups: Sequence[ec2.ISecurityGroup], access_logs: s3.IBucket
    ) -> elbv2.ApplicationLoadBalancer:
        load_balancer = elbv2.ApplicationLoadBalancer(
            self,
            "Balancer",
            vpc=self._vpc,
            internet_facing=False,
            vpc_subnets=private_subnets(self._vpc),
            security_group=security_groups[0],
            idle_timeout=Duration.seconds(self._settings.handler.idle_timeout_seconds),
            drop_invalid_header_fields=True,
            deletion_protection=self._settings.data.keep,
        )
        for group in security_groups[1:]:
            load_balancer.add_security_group(group)
        load_balancer.log_access_logs(access_logs, prefix="load-balancer")
        return load_balancer

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

    def _certificate(self) -> acm.ICertificate | None:
        edge = self._settings.edge
        if isinstance(self._front, OnlyLoadBalancer):
            return self._front.certificate
        if edge.domain_name and edge.hosted_zone:
            return domain_certificate(self, "Certificate", edge.domain_name, edge.hosted_zone)
        return None

    def _listen(self, balancer: elbv2.ApplicationLoadBalancer) -> None:
        certificate = self._certificate()
        if certificate is None or not isinstance(self._front, OnlyLoadBalancer):
            self._route(self._listener(balancer, "Listener", HTTP_PORT))
        if certificate is not None:
            self._route(self._listener(balancer, "TlsListener", HTTPS_PORT, certificate))

    def _listener(
        self,
        balancer: elbv2.ApplicationLoadBalancer,
        construct_id: str,
        port: int,
        certificate: acm.ICertificate | None = None,
    ) -> elbv2.ApplicationListener:
        return balancer.add_listener(
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

    def _route(self, listener: elbv2.ApplicationListener) -> None:
        for number, paths in enumerate(path_rules(edge_patterns(*self._front.servers)), start=1):
            listener.add_action(
                f"Handlers{number}",
                priority=number,
                conditions=[elbv2.ListenerCondition.path_patterns(paths)],
                action=elbv2.ListenerAction.forward([self.target_group]),
            )

    def _route_existing(self, existing: ExistingListener) -> None:
        hosts = list(existing.hosts)
        of_hosts = [elbv2.ListenerCondition.host_headers(hosts)] if hosts else []
        rules = path_rules(edge_patterns(*self._front.servers), hosts)
        for number, paths in enumerate(rules):
            # The rules are in our stack: the listener may be in another, or in none.
            elbv2.ApplicationListenerRule(
                self,
                f"Handlers{number + 1}",
                listener=existing.listener,
                priority=existing.priority + number,
                conditions=[*of_hosts, elbv2.ListenerCondition.path_patterns(paths)],
                action=elbv2.ListenerAction.forward([self.target_group]),
            )
