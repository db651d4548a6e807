"""The CloudFront distribution: the one address of an environment."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import Duration, Stack
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_route53 as route53
from aws_cdk import aws_route53_targets as targets
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge, acknowledge_warning
from evenflow.infra.constructs.domain import domain_certificate, hosted_zone
from evenflow.infra.constructs.edge.web_client import WebClient, module_headers, security_headers
from evenflow.infra.constructs.front import ExistingListener
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.regions import GLOBAL_REGION
from evenflow.infra.settings.stack_settings import HostedZone
from evenflow.stream_core.http.routes import (
    EDGE_KEY_HEADER,
    ENTRIES,
    OPEN_SESSION,
    POLL,
    STREAM,
    ServedBy,
    edge_patterns,
)

_VIEWER_HOST = Path(__file__).with_name("viewer_host.js")
# All error codes that CloudFront may cache. By default it repeats an error answer to GET for 10 s,
# to all viewers and whatever `Cache-Control` says: one rejected handshake would reject all others.
_ERRORS = (400, 403, 404, 405, 414, 416, 500, 501, 502, 503, 504)


class CertificateNeededError(Exception):
    """The distribution can't make its certificate itself."""


class Edge(Construct):
    """The distribution with its routes, headers, certificate and records.

    Args:
        existing: the listener of an existing load balancer. None: a load balancer of Evenflow's.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        load_balancer: elbv2.IApplicationLoadBalancer,
        http_api: apigateway.HttpApi,
        access_logs: s3.IBucket,
        edge_keys: secretsmanager.ISecret,
        web_acl_arn: str | None,
        existing: ExistingListener | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings, self._existing = settings, existing
        self._edge_keys = edge_keys
        self._read_timeout = Duration.seconds(settings.edge.read_timeout_seconds)
        web_client = WebClient(self, "WebClient", settings=settings, access_logs=access_logs)
        page = origins.S3BucketOrigin.with_origin_access_control(
            web_client.bucket,
            origin_access_control=cloudfront.S3OriginAccessControl(
                self,
                "PageAccess",
                # CDK's name is the same in all regions, which share them.
                origin_access_control_name=f"{settings.global_prefix}-page",
            ),
            # With the right to list, S3 answers 404 for a missing object, otherwise 403.
            origin_access_levels=[cloudfront.AccessLevel.READ, cloudfront.AccessLevel.LIST],
        )
        edge = settings.edge
        self.distribution = cloudfront.Distribution(
            self,
            "Distribution",
            comment=settings.global_prefix,
            default_root_object="index.html",
            default_behavior=self._file(page, security_headers(self, "SecurityHeaders", settings)),
            additional_behaviors={
                **dict.fromkeys(
                    edge_patterns(ServedBy.MODULES),
                    self._file(page, module_headers(self, "ModuleHeaders", settings)),
                ),
                **self._behaviors(load_balancer, http_api),
            },
            error_responses=[
                cloudfront.ErrorResponse(http_status=code, ttl=Duration.seconds(0))
                for code in _ERRORS
            ],
            domain_names=[edge.domain_name] if edge.domain_name else None,
            certificate=self._certificate(),
            # With CloudFront's own certificate this can't be chosen.
            minimum_protocol_version=cloudfront.SecurityPolicyProtocol.TLS_V1_2_2021
            if edge.domain_name
            else None,
            price_class=cloudfront.PriceClass[edge.price_class],
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            web_acl_id=web_acl_arn,
            enable_logging=True,
            log_bucket=access_logs,
            log_file_prefix="cloudfront/",
            log_includes_cookies=False,
        )
        web_client.deploy(self.distribution)
        self._acknowledge(web_acl_arn)
        self.address = edge.domain_name or self.distribution.distribution_domain_name
        if edge.domain_name and edge.hosted_zone:
            self._records(edge.domain_name, edge.hosted_zone)

    def _file(
        self, page: cloudfront.IOrigin, headers: cloudfront.ResponseHeadersPolicy
    ) -> cloudfront.BehaviorOptions:
        return cloudfront.BehaviorOptions(
            origin=page,
            viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.REDIRECT_TO_HTTPS,
            allowed_methods=cloudfront.AllowedMethods.ALLOW_GET_HEAD,
            cache_policy=cloudfront.CachePolicy.CACHING_OPTIMIZED,
            compress=True,
            response_headers_policy=headers,
        )

    def _behaviors(
        self, load_balancer: elbv2.IApplicationLoadBalancer, http_api: apigateway.HttpApi
    ) -> dict[str, cloudfront.BehaviorOptions]:
        handlers = self._balancer_origin(load_balancer)
        balancer = self._live(handlers, cloudfront.OriginRequestPolicy.ALL_VIEWER)
        # An HTTP API needs its own name as Host. The viewer's is sent in a header of our own.
        api_origin = self._api_origin(http_api)
        without_host = cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER
        # CloudFront tries them in this order, and chooses by path alone, not by method.
        return {
            **dict.fromkeys(edge_patterns(ServedBy.HANDLER), balancer),
            # With cookies CloudFront would not collapse a crowd's requests into one.
            ENTRIES.pattern: self._kept(
                handlers, "KeptByToken", "kept-by-token", self._without_cookies()
            ),
            # Where a read begins is in its query. Live reads have the same path, and must not wait
            # for each other: with cookies, none does.
            STREAM.pattern: self._kept(
                handlers,
                "KeptByTokenAndPlace",
                "kept-by-token-and-place",
                cloudfront.OriginRequestPolicy.ALL_VIEWER,
                cloudfront.CacheQueryStringBehavior.allow_list("offset", "live", "cursor"),
            ),
            OPEN_SESSION.pattern: self._live(api_origin, without_host, [self._viewer_host()]),
            POLL.pattern: self._live(api_origin, without_host),
        }

    def _live(
        self,
        origin: cloudfront.IOrigin,
        forwarded: cloudfront.IOriginRequestPolicy,
        functions: list[cloudfront.FunctionAssociation] | None = None,
    ) -> cloudfront.BehaviorOptions:
        """A behavior without cache and compression, for live streams and calls."""
        return cloudfront.BehaviorOptions(
            origin=origin,
            viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
            allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
            cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
            origin_request_policy=forwarded,
            compress=False,
            function_associations=functions,
        )

    def _kept(
        self,
        origin: cloudfront.IOrigin,
        construct_id: str,
        name: str,
        forwarded: cloudfront.IOriginRequestPolicy,
        queries: cloudfront.CacheQueryStringBehavior | None = None,
    ) -> cloudfront.BehaviorOptions:
        """A behavior that caches answers as they allow, per token."""
        return cloudfront.BehaviorOptions(
            origin=origin,
            viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
            allowed_methods=cloudfront.AllowedMethods.ALLOW_GET_HEAD_OPTIONS,
            cache_policy=cloudfront.CachePolicy(
                self,
                construct_id,
                cache_policy_name=f"{self._settings.global_prefix}-{name}",
                query_string_behavior=queries,
                header_behavior=cloudfront.CacheHeaderBehavior.allow_list(
                    "Authorization", "Origin"
                ),
                min_ttl=Duration.seconds(0),
                default_ttl=Duration.seconds(0),
                max_ttl=Duration.minutes(10),  # no heartbeat is longer
                enable_accept_encoding_gzip=True,
                enable_accept_encoding_brotli=True,
            ),
            # None of it is in the key.
            origin_request_policy=forwarded,
            compress=True,
        )

    def _without_cookies(self) -> cloudfront.OriginRequestPolicy:
        """What cached answers need besides the key: the host, and the headers of preflights."""
        return cloudfront.OriginRequestPolicy(
            self,
            "WithoutCookies",
            origin_request_policy_name=f"{self._settings.global_prefix}-without-cookies",
            header_behavior=cloudfront.OriginRequestHeaderBehavior.allow_list(
                "Host", "Access-Control-Request-Method", "Access-Control-Request-Headers"
            ),
        )

    def _balancer_origin(self, load_balancer: elbv2.IApplicationLoadBalancer) -> cloudfront.IOrigin:
        return origins.VpcOrigin.with_vpc_origin(
            self._vpc_origin(load_balancer),
            domain_name=load_balancer.load_balancer_dns_name,
            read_timeout=self._read_timeout,
            keepalive_timeout=Duration.seconds(60),
        )

    def _vpc_origin(self, load_balancer: elbv2.IApplicationLoadBalancer) -> cloudfront.VpcOrigin:
        """The VPC origin. CloudFront refuses to change it while a distribution uses it.

        So each protocol has its own construct and name: CloudFormation makes the new origin, points
        the distribution to it, and deletes the old one. Tags can't be changed either, so there are
        none.
        """
        # The certificate is for our address, not for the name that AWS gives to a load balancer.
        # CloudFront compares it with the viewer's Host, which every path to the handlers passes on.
        existing = self._existing
        is_tls = existing.https if existing else self._settings.edge.speaks_tls_to_balancer
        policy = "https-only" if is_tls else "http-only"
        origin = cloudfront.VpcOrigin(
            self,
            f"VpcOrigin-{policy}",
            endpoint=cloudfront.VpcOriginEndpoint.application_load_balancer(load_balancer),
            vpc_origin_name=f"{self._settings.global_prefix}-{policy}",
            http_port=None if existing is None or is_tls else existing.port,
            https_port=existing.port if existing and is_tls else None,
            protocol_policy=cloudfront.OriginProtocolPolicy.HTTPS_ONLY
            if is_tls
            else cloudfront.OriginProtocolPolicy.HTTP_ONLY,  # inside AWS's network
            origin_ssl_protocols=[cloudfront.OriginSslPolicy.TLS_V1_2] if is_tls else None,
        )
        resource = origin.node.default_child
        assert isinstance(resource, cloudfront.CfnVpcOrigin)  # noqa: S101 - what the L2 is made of
        resource.add_property_deletion_override("Tags")
        return origin

    def _api_origin(self, http_api: apigateway.HttpApi) -> cloudfront.IOrigin:
        return origins.HttpOrigin(
            f"{http_api.api_id}.execute-api.{Stack.of(self).region}.amazonaws.com",
            # CloudFormation puts the key in; it is in no template.
            custom_headers={
                EDGE_KEY_HEADER: self._edge_keys.secret_value_from_json(
                    self._settings.edge.edge_key
                ).unsafe_unwrap()
            },
            protocol_policy=cloudfront.OriginProtocolPolicy.HTTPS_ONLY,
            origin_ssl_protocols=[cloudfront.OriginSslPolicy.TLS_V1_2],
            read_timeout=self._read_timeout,
            keepalive_timeout=Duration.seconds(60),
        )

    def _viewer_host(self) -> cloudfront.FunctionAssociation:
        function = cloudfront.Function(
            self,
            "ViewerHost",
            function_name=f"{self._settings.global_prefix}-viewer-host",
            runtime=cloudfront.FunctionRuntime.JS_2_0,
            code=cloudfront.FunctionCode.from_inline(_VIEWER_HOST.read_text("utf-8")),
        )
        return cloudfront.FunctionAssociation(
            function=function, event_type=cloudfront.FunctionEventType.VIEWER_REQUEST
        )

    def _certificate(self) -> acm.ICertificate | None:
        edge = self._settings.edge
        if edge.certificate_arn:
            return acm.Certificate.from_certificate_arn(self, "Certificate", edge.certificate_arn)
        if not (edge.domain_name and edge.hosted_zone):
            return None
        if self._settings.region.name != GLOBAL_REGION:
            raise CertificateNeededError(
                f"CloudFront takes its certificate for {edge.domain_name} from {GLOBAL_REGION}: "
                "give one that was made there"
            )
        return domain_certificate(self, "Certificate", edge.domain_name, edge.hosted_zone)

    def _records(self, domain_name: str, zone: HostedZone) -> None:
        in_zone = hosted_zone(self, "Zone", zone)
        target = route53.RecordTarget.from_alias(targets.CloudFrontTarget(self.distribution))
        name = f"{domain_name}."
        route53.ARecord(self, "Ipv4", zone=in_zone, record_name=name, target=target)
        route53.AaaaRecord(self, "Ipv6", zone=in_zone, record_name=name, target=target)

    def _acknowledge(self, web_acl_arn: str | None) -> None:
        edge = self._settings.edge
        acknowledge_warning(
            self.distribution,
            "aws-cloudfront-origins:listBucketSecurityRisk",
            "the root has an object of its own and no query reaches the bucket: nobody is given "
            "the list",
        )
        acknowledge(self.distribution, "CFR1", "readers may be anywhere")
        if web_acl_arn is None:
            acknowledge(
                self.distribution,
                "CFR2",
                "a web ACL costs by the month: staging and prod have one, dev can be given one",
            )
        if edge.domain_name is None:
            acknowledge(
                self.distribution,
                "CFR4",
                "without a domain of one's own CloudFront's certificate decides",
            )
