"""The headers of the two modules that pages of any origin load."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudfront as cloudfront
from constructs import Construct

from infra.settings import EnvironmentSettings


def module_headers(
    scope: Construct, construct_id: str, settings: EnvironmentSettings
) -> cloudfront.ResponseHeadersPolicy:
    """As the handler itself sends them where it serves the modules. A browser runs no module that it may not read."""
    return cloudfront.ResponseHeadersPolicy(
        scope,
        construct_id,
        response_headers_policy_name=f"{settings.prefix}-modules",
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
