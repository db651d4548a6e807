"""The account that is asked. Everything is read, and nothing is changed."""

from __future__ import annotations

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
    "cloudformation:DescribeStacks",
    "cloudformation:GetTemplate",
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
    "servicequotas:GetAWSDefaultServiceQuota",
    "servicequotas:GetServiceQuota",
    "servicequotas:ListAWSDefaultServiceQuotas",
    "servicequotas:ListServiceQuotas",
    "sns:ListSubscriptionsByTopic",
    "ssm:GetParameter",
    "sts:GetCallerIdentity",
)
"""All that preflight may be allowed to do."""


class Unanswered(Exception):
    """AWS did not answer a call. `code` is its error code, or the name of what went wrong."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.code = code


class Account:
    """The account of the credentials that the environment has, in a region."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._clients: dict[tuple[str, str], Any] = {}

    def ask(
        self, service: str, operation: str, *, region: str | None = None, **parameters: Any
    ) -> Any:
        """One call of a service, such as `ask("sts", "get_caller_identity")`.

        Raises:
            Unanswered: it was refused, or nobody answered.
        """
        try:
            client = self._client(service, region or self.region)
            return getattr(client, operation)(**parameters)
        except ClientError as error:
            told = error.response.get("Error", {})
            raise Unanswered(
                operation, told.get("Code", "unknown"), told.get("Message", "")
            ) from None
        except BotoCoreError as error:
            raise Unanswered(operation, type(error).__name__, str(error)) from None

    @cached_property
    def _session(self) -> boto3.Session:
        # Made when something is asked: a profile that doesn't exist is an answer like others.
        return boto3.Session(region_name=self.region)

    def _client(self, service: str, region: str) -> Any:
        if (service, region) not in self._clients:
            retries = {"mode": "standard", "total_max_attempts": 3}
            config = Config(connect_timeout=5, read_timeout=20, retries=retries)
            client = self._session.client(service, region_name=region, config=config)
            self._clients[service, region] = client
        return self._clients[service, region]
