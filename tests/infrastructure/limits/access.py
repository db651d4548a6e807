"""Limits of roles, policies, keys and secrets."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.infrastructure.limits.deployment import Deployment, Properties
from tests.infrastructure.limits.limit import Fault, Limit, count, size, text, too_many

_IAM_PAGE = "IAM/latest/UserGuide/reference_iam-quotas.html"
_ROLE, _POLICY = "AWS::IAM::Role", "AWS::IAM::Policy"
_STATEMENT = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "x" * 100}


def _inline_sizes(deployment: Deployment) -> Iterator[str]:
    """Of all policies of a role together. IAM doesn't count white space."""
    sizes: Counter[str] = Counter()
    for where, properties in deployment.resources(_POLICY):
        stack = where.partition("/")[0]
        for role in properties.get("Roles", ()):
            document = deployment.size(properties["PolicyDocument"], stack)
            sizes[deployment.target(role, stack)] += document
    for where, properties in deployment.resources(_ROLE):
        for policy in properties.get("Policies", ()):
            sizes[where] += deployment.size(policy["PolicyDocument"], where.partition("/")[0])
    yield from too_many(sizes, 10_240, "bytes of inline policies")


def _statements(deployment: Deployment) -> None:
    policy = deployment.first(_POLICY)["PolicyDocument"]
    policy["Statement"] = [*policy["Statement"], *[_STATEMENT] * 80]


def _policies(deployment: Deployment) -> Iterator[Properties]:
    """All policy documents that grant or bound permissions."""
    for kind, path in (
        (_POLICY, "PolicyDocument"),
        (_ROLE, "AssumeRolePolicyDocument"),
        ("AWS::S3::BucketPolicy", "PolicyDocument"),
        ("AWS::KMS::Key", "KeyPolicy"),
        ("AWS::SQS::QueuePolicy", "PolicyDocument"),
        ("AWS::SNS::TopicPolicy", "PolicyDocument"),
    ):
        for _, properties in deployment.resources(kind):
            yield properties[path]


def _statement_ids(deployment: Deployment) -> Iterator[str]:
    for document in _policies(deployment):
        ids = [statement["Sid"] for statement in document["Statement"] if "Sid" in statement]
        for sid in ids:
            if not re.fullmatch("[A-Za-z0-9]+", sid) or ids.count(sid) > 1:
                yield f"Sid {sid!r}"


def _actions(deployment: Deployment) -> Iterator[str]:
    for document in _policies(deployment):
        for statement in document["Statement"]:
            actions: Any = statement.get("Action", [])
            for action in [actions] if isinstance(actions, str) else actions:
                if not re.fullmatch(r"[a-z0-9-]+:[A-Za-z*]+|\*", action):
                    yield f"action {action!r}"


def _statement(**changes: str) -> Fault:
    def fault(deployment: Deployment) -> None:
        deployment.first(_POLICY)["PolicyDocument"]["Statement"].append(_STATEMENT | changes)

    return fault


def _managed(deployment: Deployment) -> None:
    deployment.first(_ROLE)["ManagedPolicyArns"] = ["arn:aws:iam::aws:policy/ReadOnlyAccess"] * 11


def _function_permissions(deployment: Deployment) -> Iterator[str]:
    """The bytes by which each permission lets a function's policy grow, about."""
    sizes: Counter[str] = Counter()
    for where, properties in deployment.resources("AWS::Lambda::Permission"):
        stack = where.partition("/")[0]
        function = deployment.target(properties["FunctionName"], stack)
        sizes[function] += 200 + len(json.dumps(deployment.document(properties, stack)))
    yield from too_many(sizes, 20 * 1_024, "bytes of permissions")


def _more_permissions(deployment: Deployment) -> None:
    for template in deployment.templates.values():
        for name, resource in list(template["Resources"].items()):
            if resource["Type"] == "AWS::Lambda::Permission":
                template["Resources"] |= {f"{name}{number}": resource for number in range(100)}
                return


LIMITS = (
    Limit("a role: 10,240 bytes of inline policies", _IAM_PAGE, _inline_sizes, (_statements,)),
    Limit("a role: 10 managed policies", _IAM_PAGE,
          count(_ROLE, "ManagedPolicyArns", _IAM_PAGE, most=10).find, (_managed,)),
    size(_ROLE, "AssumeRolePolicyDocument", _IAM_PAGE, most=2_048),
    text(_POLICY, "PolicyName", "IAM/latest/APIReference/API_PutRolePolicy.html",
         longest=128, pattern=r"[\w+=,.@-]+"),
    Limit("a statement's id: letters and digits, once in a policy",
          "IAM/latest/UserGuide/reference_policies_elements_sid.html", _statement_ids,
          (_statement(Sid="our own"),)),
    Limit("an action: its service, and its name",
          "IAM/latest/UserGuide/reference_policies_elements_action.html", _actions,
          (_statement(Action="s3.GetObject"),)),
    size("AWS::S3::BucketPolicy", "PolicyDocument",
         "AmazonS3/latest/userguide/bucket-policies.html", most=20 * 1_024),
    size("AWS::KMS::Key", "KeyPolicy", "kms/latest/developerguide/resource-limits.html",
         most=32 * 1_024),
    Limit("a function: 20 KB of permissions",
          "lambda/latest/dg/gettingstarted-limits.html", _function_permissions,
          (_more_permissions,)),
    text("AWS::KMS::Alias", "AliasName", "kms/latest/APIReference/API_CreateAlias.html",
         longest=256, pattern="alias/(?!aws/)[a-zA-Z0-9/_-]+"),
    # A hyphen and six characters at the end look like what Secrets Manager adds itself.
    text("AWS::SecretsManager::Secret", "Name",
         "secretsmanager/latest/apireference/API_CreateSecret.html",
         longest=512, pattern=r"(?!.*-[A-Za-z0-9]{6}$)[A-Za-z0-9/_+=.@-]+"),
)  # fmt: skip
