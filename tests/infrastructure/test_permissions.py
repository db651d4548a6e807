"""Roles may do what their code calls, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from evenflow.functions.usage_file.usage_bucket import PREFIX as USAGE_PREFIX
from evenflow.stream_aws.s3_large_texts import PREFIX
from evenflow.stream_aws.tables import UNFINISHED_INDEX
from tests.infrastructure.synthesis import Synthesis

# Actions for which the service knows no resource, or whose resource is made while the system runs.
# Each with its reason.
_WITHOUT_RESOURCE = {
    "cloudwatch:PutMetricData": "no resources; held to our namespace by a condition",
    "ecr:GetAuthorizationToken": "no resources",
    "xray:PutTraceSegments": "no resources",
    "xray:PutTelemetryRecords": "no resources",
    "cloudfront:CreateInvalidation": "CDK's page copier; it stands in CDK's own construct",
    "cloudfront:GetInvalidation": "CDK's page copier; it stands in CDK's own construct",
}
_TABLE_ACTIONS = {
    "dynamodb:BatchGetItem",
    "dynamodb:BatchWriteItem",
    "dynamodb:DeleteItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "dynamodb:UpdateItem",
}


def _statements(
    synthesis: Synthesis, policy_name: str = ""
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, policy in synthesis.of_type("AWS::IAM::Policy").items():
        if policy_name in name:
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                yield name, statement


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _actions(synthesis: Synthesis, policy_name: str) -> dict[str, str]:
    """Action → the resources that a policy allows it on, as text."""
    found: dict[str, str] = {}
    for _, statement in _statements(synthesis, policy_name):
        for action in _as_list(statement["Action"]):
            found[action] = found.get(action, "") + json.dumps(statement["Resource"])
    return found


def _secrets_read(synthesis: Synthesis, policy_name: str) -> list[str]:
    """The name of the secret behind each resource that a policy lets be read."""
    secrets = synthesis.of_type("AWS::SecretsManager::Secret", "data")
    resources = [
        json.dumps(resource)
        for _, statement in _statements(synthesis, policy_name)
        if "secretsmanager:GetSecretValue" in _as_list(statement["Action"])
        for resource in _as_list(statement["Resource"])
    ]
    named = [
        [
            secret["Properties"]["Name"]
            for logical_id, secret in secrets.items()
            if logical_id in resource
        ]
        for resource in resources
    ]
    return [name for (name,) in named]


def test_every_resource_is_named_where_the_service_knows_resources(synthesis: Synthesis) -> None:
    for name, statement in _statements(synthesis):
        assert statement["Effect"] == "Allow"
        if "*" in _as_list(statement["Resource"]):
            assert set(_as_list(statement["Action"])) <= set(_WITHOUT_RESOURCE), name


def test_no_action_is_a_pattern_but_in_cdks_own_copier(synthesis: Synthesis) -> None:
    for name, statement in _statements(synthesis):
        if "Copier" not in name:
            assert not any("*" in action for action in _as_list(statement["Action"])), name


def test_metrics_can_be_published_into_our_namespace_only(synthesis: Synthesis) -> None:
    conditions = [
        s["Condition"]
        for _, s in _statements(synthesis)
        if "cloudwatch:PutMetricData" in str(s["Action"])
    ]
    assert conditions == [{"StringEquals": {"cloudwatch:namespace": "Evenflow"}}]


def test_the_handler_may_do_this(synthesis: Synthesis) -> None:
    actions = _actions(synthesis, "TaskRole")
    model = {a for a in actions if a.startswith(("bedrock:", "sagemaker:"))}
    key = {a for a in actions if a.startswith("kms:")}
    assert set(actions) - model - key == _TABLE_ACTIONS | {
        "secretsmanager:GetSecretValue",
        "cloudwatch:PutMetricData",
        "ecs:DescribeServices",
        "ecs:DescribeTasks",
        "ecs:GetTaskProtection",
        "ecs:UpdateTaskProtection",
        "s3:GetObject",
        "s3:DeleteObject",
        "s3:PutObject",
        "sqs:SendMessage",
    }
    assert model == {
        "demo": set(),
        "bedrock": {"bedrock:InvokeModelWithResponseStream"},
        "sagemaker": {"sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"},
    }[synthesis.settings.inference.kind] | (
        {"bedrock:ApplyGuardrail"} if synthesis.settings.filters.guardrail else set()
    )
    assert bool(key) is synthesis.settings.data.customer_key
    prefix = synthesis.settings.prefix
    assert _secrets_read(synthesis, "TaskRoleDefaultPolicy") == [
        f"{prefix}-signing-keys",
        f"{prefix}-tenant-keys",
    ]
    for action in ("ecs:DescribeTasks", "ecs:GetTaskProtection", "ecs:UpdateTaskProtection"):
        assert f":task/evenflow-{synthesis.settings.name}/*" in actions[action]
    name = f"evenflow-{synthesis.settings.name}"
    assert f":service/{name}/{name}-handler" in actions["ecs:DescribeServices"]
    assert "DeadLetters" in actions["sqs:SendMessage"]
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        assert f'"{prefix}-requests-arn"' in actions[action]
        assert f'"/{PREFIX}*"' in actions[action]
    assert "Responses" in actions["dynamodb:DeleteItem"]
    assert "Ledger" not in actions["dynamodb:DeleteItem"]
    for action in ("dynamodb:BatchWriteItem", "dynamodb:DeleteItem"):
        assert "Sessions" not in actions[action]
    # Reservations of tenants are read together, and deleted when they are settled.
    assert "Tenants" in actions["dynamodb:DeleteItem"]
    assert "Tenants" not in actions["dynamodb:BatchWriteItem"]
    for table in ("Sessions", "Ledger", "Responses"):
        assert table not in actions["dynamodb:BatchGetItem"]
    for table in ("Responses", "Ledger"):
        assert table in actions["dynamodb:BatchWriteItem"]


def test_only_the_handler_asks_the_index_and_only_that_one(synthesis: Synthesis) -> None:
    allowed = [
        (name, statement["Action"], resource)
        for name, statement in _statements(synthesis)
        for resource in map(json.dumps, _as_list(statement["Resource"]))
        if "/index/" in resource
    ]
    assert len(allowed) == 1
    ((name, action, resource),) = allowed
    assert "TaskRole" in name
    assert action == "dynamodb:Query"
    assert f"/index/{UNFINISHED_INDEX}" in resource
    assert "Responses" in resource


def test_the_handler_may_call_its_gpus(choosy: Synthesis) -> None:
    test_the_handler_may_do_this(choosy)
    assert f"endpoint/{choosy.settings.prefix}" in str(_actions(choosy, "TaskRole"))


def test_the_functions_may_do_this(synthesis: Synthesis) -> None:
    always = {
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "xray:PutTelemetryRecords",
        "xray:PutTraceSegments",
    }
    expected = {
        "SessionInitRole": {
            "dynamodb:GetItem",
            "dynamodb:Query",
            "dynamodb:UpdateItem",
            "secretsmanager:GetSecretValue",
        },
        "PollResponseRole": {
            "dynamodb:GetItem",
            "dynamodb:Query",
            "dynamodb:UpdateItem",
            "secretsmanager:GetSecretValue",
        },
        "KeyRotationRole": {
            "secretsmanager:DescribeSecret",
            "secretsmanager:GetSecretValue",
            "secretsmanager:PutSecretValue",
            "secretsmanager:UpdateSecretVersionStage",
        },
        "UsageFileRole": {
            "dynamodb:Query",
            "s3:AbortMultipartUpload",
            "s3:ListBucket",
            "s3:PutObject",
            "secretsmanager:GetSecretValue",
        },
    }
    for role, own in expected.items():
        actions = _actions(synthesis, role)
        assert {action for action in actions if not action.startswith("kms:")} == own | always, role
    assert "Responses" in _actions(synthesis, "PollResponseRole")["dynamodb:Query"]
    of_sessions = _actions(synthesis, "SessionInitRole")
    assert "Tenants" not in of_sessions["dynamodb:UpdateItem"]
    assert "Sessions" not in of_sessions["dynamodb:Query"]
    assert (
        "TenantKeys" not in _actions(synthesis, "PollResponseRole")["secretsmanager:GetSecretValue"]
    )
    assert (
        "TenantKeys" not in _actions(synthesis, "KeyRotationRole")["secretsmanager:PutSecretValue"]
    )


def test_the_file_of_usage_is_written_below_its_prefix(synthesis: Synthesis) -> None:
    actions = _actions(synthesis, "UsageFileRole")
    bucket = f'"{synthesis.settings.prefix}-usage-arn"'
    for action in ("s3:AbortMultipartUpload", "s3:PutObject"):
        assert bucket in actions[action]
        assert f'"/{USAGE_PREFIX}*"' in actions[action]
    assert json.loads(actions["s3:ListBucket"]) == {"Fn::ImportValue": json.loads(bucket)}
    (listing,) = (
        statement
        for _, statement in _statements(synthesis, "UsageFileRole")
        if statement["Action"] == "s3:ListBucket"
    )
    assert listing["Condition"] == {"StringEquals": {"s3:prefix": USAGE_PREFIX}}
    assert "Tenants" in actions["dynamodb:Query"]
    assert _secrets_read(synthesis, "UsageFileRole") == [f"{synthesis.settings.prefix}-tenant-keys"]


def test_the_key_serves_through_its_services_only(synthesis: Synthesis) -> None:
    services = ["dynamodb.us-east-1.amazonaws.com", "secretsmanager.us-east-1.amazonaws.com"]
    of_handlers = [*services, "sqs.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com"]
    for name, statement in _statements(synthesis):
        if (
            any(action.startswith("kms:") for action in _as_list(statement["Action"]))
            and "Observ" not in name
        ):
            expected: list[str] | str = of_handlers if "TaskRole" in name else services
            if "Canary" in name:
                expected = "secretsmanager.us-east-1.amazonaws.com"
            elif "UsageFile" in name:
                expected = [*services, "s3.us-east-1.amazonaws.com"]
            assert statement["Condition"] == {"StringEquals": {"kms:ViaService": expected}}, name


def test_our_roles_have_no_managed_policies(synthesis: Synthesis) -> None:
    for name, role in synthesis.of_type("AWS::IAM::Role").items():
        # CDK's own function that empties a bucket before it is deleted.
        if not name.startswith("CustomS3AutoDeleteObjects"):
            assert not role["Properties"].get("ManagedPolicyArns"), name


def test_no_template_holds_a_secret(synthesis: Synthesis) -> None:
    """One refers to a key, which CloudFormation puts into the distribution."""
    for name, template in synthesis.templates.items():
        text = json.dumps(template)
        assert text.count("resolve:secretsmanager") == (1 if name == "edge" else 0), name
        assert '"SecretString":' not in text, name
