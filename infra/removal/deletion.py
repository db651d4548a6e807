"""Deletes resources that an environment left in the account."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.account.kept_resources import (
    BUCKET,
    KEY,
    LOG_GROUP,
    QUEUE,
    SECRET,
    TABLE,
    KeptResource,
)

CLOUDFRONT_GROUP = "CloudFront-VPCOrigins-Service-SG"
"""The security group that CloudFront makes with the first VPC origin of a VPC."""

_KEY_DAYS = 7  # the shortest waiting time before AWS deletes a key
# CloudFront removes its network interfaces some minutes after the VPC origin.
_IN_USE_SECONDS, _INTERVAL_SECONDS = 600, 15


def delete(account: AwsAccount, resource: KeptResource) -> None:
    """Delete one resource with all that is in it. Its name is free afterwards.

    Raises:
        AwsCallError: AWS refused it.
    """
    where = account if resource.region is None else AwsAccount(resource.region)
    _DELETIONS[resource.kind](where, resource.name)


def _delete_table(account: AwsAccount, name: str) -> None:
    table = account.call("dynamodb", "describe_table", TableName=name)["Table"]
    if table.get("DeletionProtectionEnabled"):
        account.call("dynamodb", "update_table", TableName=name, DeletionProtectionEnabled=False)
    _repeat_while_in_use(
        "ResourceInUseException",
        partial(account.call, "dynamodb", "delete_table", TableName=name),
    )


def _delete_secret(account: AwsAccount, arn: str) -> None:
    account.call("secretsmanager", "delete_secret", SecretId=arn, ForceDeleteWithoutRecovery=True)


def _delete_log_group(account: AwsAccount, name: str) -> None:
    account.call("logs", "delete_log_group", logGroupName=name)


def _delete_key(account: AwsAccount, key: str) -> None:
    account.call("kms", "schedule_key_deletion", KeyId=key, PendingWindowInDays=_KEY_DAYS)


def _delete_queue(account: AwsAccount, name: str) -> None:
    account.call("sqs", "delete_queue", QueueUrl=queue_url(account, name))


def queue_url(account: AwsAccount, name: str) -> str:
    """The URL of a queue, by which CloudFormation and SQS know it."""
    url: str = account.call("sqs", "get_queue_url", QueueName=name)["QueueUrl"]
    return url


def _delete_bucket(account: AwsAccount, name: str) -> None:
    for page in account.pages("s3", "list_objects_v2", Bucket=name):
        keys = [{"Key": item["Key"]} for item in page.get("Contents", ())]
        if keys:
            account.call("s3", "delete_objects", Bucket=name, Delete={"Objects": keys})
    account.call("s3", "delete_bucket", Bucket=name)


def delete_cloudfront_group(account: AwsAccount, network_stack: str) -> bool:
    """Delete the security group that CloudFront leaves in the VPC of this stack.

    CloudFormation can't delete a VPC that has such a group. Returns whether there was one.

    Raises:
        AwsCallError: AWS refused it, or CloudFront still uses it.
    """
    groups = [
        group["GroupId"]
        for vpc in _vpcs(account, network_stack)
        for group in account.call(
            "ec2",
            "describe_security_groups",
            Filters=[
                {"Name": "vpc-id", "Values": [vpc]},
                {"Name": "group-name", "Values": [CLOUDFRONT_GROUP]},
            ],
        )["SecurityGroups"]
    ]
    for group in groups:
        _repeat_while_in_use(
            "DependencyViolation",
            partial(account.call, "ec2", "delete_security_group", GroupId=group),
        )
    return bool(groups)


def _vpcs(account: AwsAccount, network_stack: str) -> list[str]:
    try:
        pages = list(
            account.pages("cloudformation", "list_stack_resources", StackName=network_stack)
        )
    except AwsCallError as error:
        if error.code != "ValidationError":  # there is no such stack
            raise
        return []
    return [
        resource["PhysicalResourceId"]
        for page in pages
        for resource in page["StackResourceSummaries"]
        if resource["ResourceType"] == "AWS::EC2::VPC"
        and resource["ResourceStatus"] != "DELETE_COMPLETE"
    ]


def _repeat_while_in_use(code: str, call: Callable[[], Any]) -> None:
    """Call until AWS doesn't answer with this code any more."""
    give_up_at = time.monotonic() + _IN_USE_SECONDS
    while True:
        try:
            call()
        except AwsCallError as error:
            if error.code != code or time.monotonic() > give_up_at:
                raise
            time.sleep(_INTERVAL_SECONDS)
        else:
            return


_DELETIONS: Mapping[str, Callable[[AwsAccount, str], None]] = {
    TABLE: _delete_table,
    SECRET: _delete_secret,
    LOG_GROUP: _delete_log_group,
    BUCKET: _delete_bucket,
    KEY: _delete_key,
    QUEUE: _delete_queue,
}
