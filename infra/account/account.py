"""Calls to AWS with the caller's credentials. Preflight reads; `infra/removal` also deletes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ACTIONS = (
    "acm:DescribeCertificate",
    "bedrock:GetFoundationModel",
    "bedrock:GetFoundationModelAvailability",
    "bedrock:GetInferenceProfile",
    "cloudformation:DescribeStackResources",
    "cloudformation:DescribeStacks",
    "cloudformation:GetTemplate",
    "cloudformation:ListStackResources",
    "cloudformation:ListStacks",
    "cloudfront:ListCachePolicies",
    "cloudfront:ListDistributions",
    "cloudfront:ListOriginRequestPolicies",
    "cloudfront:ListResponseHeadersPolicies",
    "cloudfront:ListVpcOrigins",
    "ec2:DescribeInternetGateways",
    "ec2:DescribeVpcBlockPublicAccessExclusions",
    "ec2:DescribeVpcBlockPublicAccessOptions",
    "ec2:DescribeVpcs",
    "ecr:DescribeImages",
    "kms:DescribeKey",
    "logs:DescribeLogGroups",
    "secretsmanager:ListSecrets",
    "servicequotas:GetAWSDefaultServiceQuota",
    "servicequotas:GetServiceQuota",
    "servicequotas:ListAWSDefaultServiceQuotas",
    "servicequotas:ListServiceQuotas",
    "sns:ListSubscriptionsByTopic",
    "ssm:GetParameter",
    "sts:GetCallerIdentity",
    "tag:GetResources",
)
"""The IAM actions of preflight, all of which only read."""


class AwsCallError(Exception):
    """A call to AWS failed. `code` is AWS's error code, or the name of the SDK's exception."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.code = code


class AwsAccount:
    """The account of the credentials that the environment has, in a region."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._clients: dict[tuple[str, str], Any] = {}

    def call(
        self, service: str, operation: str, *, region: str | None = None, **parameters: Any
    ) -> Any:
        """Call an operation of a service, such as `call("sts", "get_caller_identity")`.

        Raises:
            AwsCallError: AWS refused the call, or did not answer.
        """
        with _unanswered(operation):
            client = self._client(service, region or self.region)
            return getattr(client, operation)(**parameters)

    def pages(self, service: str, operation: str, **parameters: Any) -> Iterator[Any]:
        """Yield the pages of an operation that lists resources.

        Raises:
            AwsCallError: as `call`.
        """
        with _unanswered(operation):
            client = self._client(service, self.region)
            yield from client.get_paginator(operation).paginate(**parameters)

    @cached_property
    def _session(self) -> boto3.Session:
        # Made at the first call, so that a missing profile is reported like any failed call.
        return boto3.Session(region_name=self.region)

    def _client(self, service: str, region: str) -> Any:
        if (service, region) not in self._clients:
            retries = {"mode": "standard", "total_max_attempts": 3}
            config = Config(connect_timeout=5, read_timeout=20, retries=retries)
            client = self._session.client(service, region_name=region, config=config)
            self._clients[service, region] = client
        return self._clients[service, region]


@contextmanager
def _unanswered(operation: str) -> Iterator[None]:
    """Turn the SDK's errors into `AwsCallError`."""
    try:
        yield
    except ClientError as error:
        details = error.response.get("Error", {})
        raise AwsCallError(
            operation, details.get("Code", "unknown"), details.get("Message", "")
        ) from None
    except BotoCoreError as error:
        raise AwsCallError(operation, type(error).__name__, str(error)) from None
