"""The page: the bucket that only CloudFront may read, and the headers that CloudFront adds."""

from __future__ import annotations

import typing

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as deployment
from constructs import Construct

from evenflow.infra.assets.package_data import built_page
from evenflow.infra.assets.page_build import PageNotBuiltError
from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.retention import log_group
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
    # domain of your own: CloudFront's is not known here, and *.cloudfront.net would allow all of
    # AWS' customers.
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


class WebClient(Construct):
    """The page's bucket. The page can be built again, so the bucket is deleted with its stack."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        access_logs: s3.IBucket,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            server_access_logs_bucket=access_logs,
            server_access_logs_prefix="web-client/",
            removal_policy=RemovalPolicy.DESTROY,
            auto_delete_objects=True,
        )

    def deploy(self, distribution: cloudfront.Distribution) -> None:
        """Copy the page into the bucket, and drop it from CloudFront's cache.

        Raises:
            PageNotBuiltError: web/dist has no page.
        """
        page = built_page()
        if not (page / "index.html").is_file():
            raise PageNotBuiltError(
                "web/dist/index.html is missing: `make web/dist/index.html` builds it"
            )
        logs = log_group(
            self, "CopierLogs", f"/{self._settings.log_path}/page-copier", self._settings
        )
        role = iam.Role(self, "CopierRole", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        logs.grant_write(role)
        deployment.BucketDeployment(
            self,
            "Copier",
            sources=[deployment.Source.asset(str(page))],
            destination_bucket=self.bucket,
            distribution=distribution,
            distribution_paths=["/*"],
            # Browsers ask each time whether it has changed (ETag), so a new page never runs with
            # old assets.
            cache_control=[deployment.CacheControl.no_cache()],
            role=role,
            log_group=logs,
        )
        self._acknowledge(role)

    def _acknowledge(self, role: iam.Role) -> None:
        stack = Stack.of(self)
        bucket = stack.get_logical_id(typing.cast("s3.CfnBucket", self.bucket.node.default_child))
        qualifier = stack.synthesizer.bootstrap_qualifier
        staging = f"cdk-{qualifier}-assets-<AWS::AccountId>-{stack.region}"
        for finding in (
            *(
                f"Action::s3:{action}*"
                for action in ("GetObject", "GetBucket", "List", "DeleteObject", "Abort")
            ),
            f"Resource::<{bucket}.Arn>/*",
            f"Resource::arn:<AWS::Partition>:s3:::{staging}/*",
            "Resource::*",
        ):
            acknowledge(
                role,
                f"IAM5[{finding}]",
                "CDK's function that copies the page writes this bucket, reads the staging one",
            )
        for child in stack.node.children:
            if child.node.id.startswith("Custom::CDKBucketDeployment"):
                acknowledge(
                    child,
                    "L1",
                    "the function that copies the page is CDK's, and so is its run time",
                )
