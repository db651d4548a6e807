"""Each process may make the calls of AWS that it makes, and no others.

The calls are those of tests/called.json, which the tests of the system keep right.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from tests.aws_calls import called, needed_operations
from tests.infrastructure.conftest import Synthesize
from tests.infrastructure.iam_evaluation import ApiRequest, Decision, Statement, decide
from tests.infrastructure.process_permissions import Need, ProcessPermissions
from tests.infrastructure.resolved_account import ACCOUNT, ResolvedAccount, as_list, as_text
from tests.infrastructure.synthesis import ROOT, Synthesis

_ENVIRONMENTS = (
    "dev",
    "staging",
    "prod",
    "staging-workers",
    "staging-traced",
    "staging-sagemaker",
    "choosy",
    "staging/eu-west-1/acme",
)
_FOREIGN = "999999999999"
_WITH_KEY = "DynamoDB wants it of the key of a table, as CDK's own grants on tables have it"
_NOT_NEEDED = {
    "kms:DescribeKey": _WITH_KEY,
    "kms:Encrypt": _WITH_KEY,
    "kms:GenerateDataKey": _WITH_KEY,
}
"""What roles may do although no call needs it, with reasons."""
_OF_THE_VERSION_BEFORE = (("handler", "dynamodb:BatchWriteItem", "-tenants"),)
"""Calls of tasks that still run while the policy of this version is deployed."""


@pytest.fixture(scope="module", params=_ENVIRONMENTS)
def permissions(request: pytest.FixtureRequest, synthesized: Synthesize) -> ProcessPermissions:
    """Each environment in turn."""
    return ProcessPermissions(ResolvedAccount(synthesized(request.param)))


@pytest.fixture(scope="module")
def staging_permissions(synthesized: Synthesize) -> ProcessPermissions:
    """An environment with a customer's key, endpoints and Bedrock."""
    return ProcessPermissions(ResolvedAccount(synthesized("staging")))


def _refusals(permissions: ProcessPermissions) -> list[str]:
    return [why for need in permissions.needs if (why := permissions.refusal(need)) is not None]


def test_each_process_may_make_its_calls(permissions: ProcessPermissions) -> None:
    assert _refusals(permissions) == []


def test_no_role_may_do_what_no_call_needs(permissions: ProcessPermissions) -> None:
    unused = [
        f"{process.name} may {action} {resource}, which no call needs"
        for process in {each.role: each for each in permissions.processes.values()}.values()
        for action, resource in permissions.unused(process)
        if action not in _NOT_NEEDED and not _was_needed(process.name, action, resource)
    ]
    assert unused == []


def _was_needed(process: str, action: str, resource: str) -> bool:
    return any(
        (process, action) == (its_process, its_action) and resource.endswith(end)
        for its_process, its_action, end in _OF_THE_VERSION_BEFORE
    )


# -- that it finds what is wrong -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("process", "action", "resource"),
    [
        ("handler", "dynamodb:PutItem", "table/evenflow-staging-tenants"),
        ("handler", "dynamodb:Query", "/index/by-owner"),
        ("handler", "kms:GenerateDataKey", ":key/"),
        ("model", "bedrock:InvokeModelWithResponseStream", "us-west-2::foundation-model/"),
        ("poll_response", "secretsmanager:GetSecretValue", "edge-keys"),
        ("usage_file", "s3:AbortMultipartUpload", "/usage/"),
    ],
)
def test_a_permission_that_is_taken_away_is_missed(
    process: str, action: str, resource: str, staging_permissions: ProcessPermissions
) -> None:
    permissions = ProcessPermissions(staging_permissions.account)
    role = permissions.processes[process].role
    kept: list[Statement] = [
        {**statement, "Action": one_action, "Resource": one}
        for statement in permissions.statements(role)
        for one_action in as_list(statement["Action"])
        for one in as_list(statement["Resource"])
        if not (one_action == action and resource in one)
    ]
    permissions.replaced[role] = kept
    refusals = _refusals(permissions)
    assert refusals
    role_id = permissions.account.by_arn(role).logical_id
    assert all(action in why and resource in why and role_id in why for why in refusals)


_ELSEWHERE = {
    "bedrock:InferenceProfileArn": f"arn:aws:bedrock:us-east-1:{ACCOUNT}:inference-profile/other",
    "cloudwatch:namespace": "AWS/DynamoDB",
    "kms:ViaService": "ec2.us-east-1.amazonaws.com",
    "s3:prefix": "",
}


def test_conditions_bind_what_they_name(permissions: ProcessPermissions) -> None:
    """The same request in another context is not allowed."""
    uses = [use for need in permissions.needs for use in permissions.uses_of_key(need)]
    for need in (*permissions.needs, *uses):
        for key, value in _ELSEWHERE.items():
            if key in need.request.context:
                other = _with_context(need, {key: value})
                assert permissions.identity(other) is Decision.NOT_ALLOWED, other.request


def _with_context(need: Need, changed: dict[str, str]) -> Need:
    context = {**need.request.context, **changed}
    return need._replace(request=replace(need.request, context=context))


# -- endpoints of the VPC --------------------------------------------------------------------------

# They write into the caller's account, whatever it is.
_WITHOUT_RESOURCES = {"ecr.api", "ecr.dkr", "monitoring", "xray"}
_LONGEST_POLICY = 20_480
"""Characters, with white space: VPC, "Control access to VPC endpoints using endpoint policies"."""


def test_an_endpoint_takes_no_other_account_s_credentials(permissions: ProcessPermissions) -> None:
    for service, request in _through_endpoints(permissions):
        foreign = replace(
            request,
            principal=f"arn:aws:iam::{_FOREIGN}:role/theirs",
            context={**request.context, "aws:PrincipalAccount": _FOREIGN},
        )
        assert not permissions.endpoint_allows(service, foreign), (service, request)


def test_an_endpoint_leads_to_no_other_account_s_resources(
    permissions: ProcessPermissions,
) -> None:
    for service, request in _through_endpoints(permissions):
        if request.resource == "*":
            assert service in _WITHOUT_RESOURCES
        elif "::foundation-model/" not in request.resource:
            owner = request.resource.split(":")[4]
            theirs = request.resource.replace(owner, _FOREIGN) if owner else request.resource
            context = {**request.context, "aws:ResourceAccount": _FOREIGN}
            foreign = replace(request, resource=theirs, context=context)
            assert not permissions.endpoint_allows(service, foreign), (service, request)


def _through_endpoints(permissions: ProcessPermissions) -> Iterator[tuple[str, ApiRequest]]:
    for need in permissions.needs:
        for service in permissions.passed_endpoints(need):
            yield service, need.request


def test_layers_of_images_come_from_ecr_s_own_bucket(permissions: ProcessPermissions) -> None:
    """ECR gives addresses that it has signed itself."""
    bucket = f"arn:aws:s3:::prod-{permissions.account.region}-starport-layer-bucket"
    context = {"aws:PrincipalAccount": _FOREIGN, "aws:ResourceAccount": _FOREIGN}
    for action, allowed in (("s3:GetObject", True), ("s3:PutObject", False)):
        request = ApiRequest(
            f"arn:aws:iam::{_FOREIGN}:role/ecr", action, f"{bucket}/a-layer", context
        )
        public = permissions.settings.network.tasks_are_public
        assert permissions.endpoint_allows("s3", request) is (allowed or public)


def test_a_model_in_the_vpc_reads_its_weights_wherever_they_are(synthesized: Synthesize) -> None:
    permissions = ProcessPermissions(ResolvedAccount(synthesized("staging-sagemaker")))
    (role,) = (
        each
        for each in permissions.account.of_kind("AWS::IAM::Role")
        if "sagemaker.amazonaws.com" in as_text(each.properties["AssumeRolePolicyDocument"])
    )
    context = {"aws:PrincipalAccount": ACCOUNT, "aws:ResourceAccount": _FOREIGN}
    for path, allowed in (("qwen3-8b/weights", True), ("others/weights", False)):
        request = ApiRequest(role.arn, "s3:GetObject", f"arn:aws:s3:::weights/{path}", context)
        own = decide(permissions.statements(role.arn), request) is Decision.ALLOWED
        assert (own, permissions.endpoint_allows("s3", request)) == (allowed, allowed)


def test_policies_of_endpoints_are_short_enough(permissions: ProcessPermissions) -> None:
    for service, endpoint in permissions.endpoints.items():
        assert len(as_text(endpoint.properties.get("PolicyDocument"))) < _LONGEST_POLICY, service


# -- that the list has every call ------------------------------------------------------------------

_SOURCES = ("evenflow", "fargate_handler", "functions", "stream_aws")


def test_every_operation_of_the_sources_is_on_the_list() -> None:
    made = {action.partition(":")[2] for action in {call.action for call in called()}}
    unmade = {
        f"{name} ({file})"
        for file, name in _named_operations()
        if not set(needed_operations(name)) & made
    }
    assert unmade == set()


def _named_operations() -> Iterator[tuple[str, str]]:
    """Files and the operations of AWS that they name, as attributes or as texts."""
    operations = _operations()
    for folder in _SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                name = getattr(node, "attr", getattr(node, "value", None))
                if isinstance(name, str) and name in operations:
                    yield str(path.relative_to(ROOT)), operations[name]


@cache
def _operations() -> dict[str, str]:
    """All operations of the services that we call, by their names in Python."""
    session = botocore.session.get_session()
    services = (
        "bedrock-runtime", "cloudwatch", "dynamodb", "ecs", "s3", "sagemaker-runtime",
        "secretsmanager", "sqs",
    )  # fmt: skip
    return {
        xform_name(operation): operation
        for service in services
        for operation in session.get_service_model(service).operation_names
    }


# -- every policy ----------------------------------------------------------------------------------

# Actions without a resource, or with one that is made while the system runs.
# Each with its reason.
_NO_RESOURCE = {
    "cloudwatch:PutMetricData": "no resources; held to our namespace by a condition",
    "ecr:GetAuthorizationToken": "no resources",
    "xray:PutTraceSegments": "no resources",
    "xray:PutTelemetryRecords": "no resources",
    "cloudfront:CreateInvalidation": "CDK's page copier; it stands in CDK's own construct",
    "cloudfront:GetInvalidation": "CDK's page copier; it stands in CDK's own construct",
}


def _statements(synthesis: Synthesis) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, policy in synthesis.of_type("AWS::IAM::Policy").items():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            yield name, statement


def test_every_resource_is_named_where_the_service_knows_resources(synthesis: Synthesis) -> None:
    for name, statement in _statements(synthesis):
        assert statement["Effect"] == "Allow"
        if "*" in as_list(statement["Resource"]):
            assert set(as_list(statement["Action"])) <= set(_NO_RESOURCE), name


def test_no_action_is_a_pattern_but_in_cdks_own_copier(synthesis: Synthesis) -> None:
    for name, statement in _statements(synthesis):
        if "Copier" not in name:
            assert not any("*" in action for action in as_list(statement["Action"])), name


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
