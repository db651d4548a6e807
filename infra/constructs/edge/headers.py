"""The headers that CloudFront adds to the page and to its modules."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudfront as cloudfront
from constructs import Construct

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.stream_core.auth.allowed_origins import page_policy


def module_headers(
    scope: Construct, construct_id: str, settings: EnvironmentSettings
) -> cloudfront.ResponseHeadersPolicy:
    """The headers that the handler itself sends with the modules, which any page may read."""
    return cloudfront.ResponseHeadersPolicy(
        scope,
        construct_id,
        response_headers_policy_name=f"{settings.global_prefix}-modules",
        cors_behavior=cloudfront.ResponseHeadersCorsBehavior(
            access_control_allow_origins=["*"],
            access_control_allow_methods=["GET", "HEAD"],
            access_control_allow_headers=["*"],
            access_control_allow_credentials=False,
            origin_override=True,
        ),
        security_headers_behavior=cloudfront.ResponseSecurityHeadersBehavior(
            content_type_options=cloudfront.ResponseHeadersContentTypeOptions(override=True),
            strict_transport_security=cloudfront.ResponseHeadersStrictTransportSecurity(
                access_control_max_age=Duration.days(365), include_subdomains=True, override=True
            ),
        ),
    )


def security_headers(
    scope: Construct, construct_id: str, settings: EnvironmentSettings
) -> cloudfront.ResponseHeadersPolicy:
    """The policy that the handler itself sends with the page."""
    # 'self' covers wss in browsers since 2022. Older ones need it named, which only works with a
    # domain of your own: CloudFront's is not known here, and *.cloudfront.net would be anybody's.
    websockets = [f"wss://{settings.edge.domain_name}"] if settings.edge.domain_name else []
    return cloudfront.ResponseHeadersPolicy(
        scope,
        construct_id,
        response_headers_policy_name=f"{settings.global_prefix}-page",
        security_headers_behavior=cloudfront.ResponseSecurityHeadersBehavior(
            content_security_policy=cloudfront.ResponseHeadersContentSecurityPolicy(
                content_security_policy=page_policy(*websockets), override=True
            ),
            content_type_options=cloudfront.ResponseHeadersContentTypeOptions(override=True),
            frame_options=cloudfront.ResponseHeadersFrameOptions(
                frame_option=cloudfront.HeadersFrameOption.DENY, override=True
            ),
            referrer_policy=cloudfront.ResponseHeadersReferrerPolicy(
                referrer_policy=cloudfront.HeadersReferrerPolicy.NO_REFERRER, override=True
            ),
            strict_transport_security=cloudfront.ResponseHeadersStrictTransportSecurity(
                access_control_max_age=Duration.days(365), include_subdomains=True, override=True
            ),
        ),
    )
