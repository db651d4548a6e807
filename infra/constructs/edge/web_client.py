"""The bucket with the built page, which only CloudFront may read."""

from __future__ import annotations

import typing

from aws_cdk import RemovalPolicy, Stack
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
