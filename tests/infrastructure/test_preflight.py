"""`make preflight`: an account that has everything, and each thing that it may lack."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import create_loader

from evenflow.infra.account.account import ACTIONS, AwsAccount
from evenflow.infra.account.kept_resources import LOG_GROUP, find_kept
from evenflow.infra.preflight import image
from evenflow.infra.preflight.__main__ import pager, policy, preflight
from evenflow.infra.preflight.findings import PreflightFinding, Severity, as_table
from evenflow.infra.preflight.network import EDGE_QUOTAS
from evenflow.infra.removal.deletion import delete
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.synthesized_settings import write_settings
from tests.infrastructure.account_server import AccountServer, account_server, well
from tests.infrastructure.conftest import Synthesize, paging
from tests.infrastructure.synthesis import ROOT
from tests.integration.aws_emulator import CREDENTIALS
from tests.integration.server_process import clean_environment, free_port

IMAGE = "111111111111.dkr.ecr.us-east-1.amazonaws.com/evenflow:1"
NOW = datetime(2026, 11, 23, tzinfo=UTC)
Answers = dict[str, Any]
_loader = cache(create_loader)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[AccountServer]:
    """An account that has everything, with a builder that runs beside."""
    # Sessions of the SDK share what they read: each would read some megabytes of JSON.
    monkeypatch.setattr("botocore.session.create_loader", _loader)
    with account_server(well()) as server:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        monkeypatch.setenv("CDK_DOCKER", str(builder(tmp_path)))
        yield server


def builder(folder: Path, info: str = "exit 0", platforms: str = "linux/amd64,linux/arm64") -> Path:
    """A program that answers as Docker's does."""
    program = folder / "builder"
    program.write_text(
        f'#!/bin/sh\ncase "$1" in info) {info};; buildx) echo "Platforms: {platforms}";; esac\n'
    )
    program.chmod(0o755)
    return program


def with_domain(**edge: str) -> EnvironmentSettings:
    """prod with a domain of its own, and with a pager."""
    data = paging(environment("prod")).model_dump()
    data["edge"] |= {
        "domain_name": "chat.example.com",
        "certificate_arn": "arn:aws:acm:us-east-1:111111111111:certificate/1",
        **edge,
    }
    return EnvironmentSettings.model_validate(data)


def found(settings: EnvironmentSettings) -> dict[str, PreflightFinding]:
    """The findings by name."""
    findings = list(preflight(settings, NOW))
    assert len({finding.name for finding in findings}) == len(findings)
    return {finding.name: finding for finding in findings}


def leftovers(state: str = "Enabled") -> Answers:
    """Answers of an account that had prod, with one stack left."""
    arn = "arn:aws:{}:us-east-1:111111111111:{}".format
    tagged = [
        *(arn("dynamodb", f"table/evenflow-prod-{name}") for name in ("sessions", "ledger")),
        arn("sqs", "evenflow-prod-dead-letters"),
        arn("kms", "key/12345678"),
        "arn:aws:s3:::evenflow-prod-data-requests",
    ]
    secret = arn("secretsmanager", "secret:evenflow-prod-edge-keys-AbCdEf")
    return {
        "ListStacks": {
            "StackSummaries": [
                {"StackName": "evenflow-prod-network", "StackStatus": "CREATE_COMPLETE"},
                {"StackName": "evenflow-prod-data", "StackStatus": "DELETE_COMPLETE"},
                {"StackName": "other", "StackStatus": "CREATE_COMPLETE"},
            ]
        },
        "ListStackResources": {
            "StackResourceSummaries": [
                {
                    "PhysicalResourceId": "/evenflow/prod/vpc-flows",
                    "ResourceType": "AWS::Logs::LogGroup",
                    "ResourceStatus": "CREATE_COMPLETE",
                }
            ]
        },
        "GetResources": {
            "ResourceTagMappingList": [{"ResourceARN": each, "Tags": []} for each in tagged]
        },
        "ListSecrets": {"SecretList": [{"ARN": secret, "Name": "evenflow-prod-edge-keys"}]},
        "DescribeLogGroups": {
            "logGroups": [
                {"logGroupName": name} for name in ("/evenflow/prod/vpc-flows", "/evenflow/prod/x")
            ]
        },
        "DescribeKey": {"KeyMetadata": {"KeyId": "12345678", "KeyState": state}},
    }


def test_names_that_an_earlier_deployment_has_taken_are_found(account: AccountServer) -> None:
    account.answers |= leftovers()
    finding = found(with_domain())["kept resources"]
    assert finding.severity is Severity.BAD
    assert finding.found.startswith(
        "evenflow-prod-ledger, evenflow-prod-sessions, /evenflow/prod/x and 2 more"
    ), "neither what a stack owns, nor the key and the bucket, which need no name"
    assert "docs/runbooks/kept-resources.md" in finding.to_do
    assert (ROOT / "docs" / "runbooks" / "kept-resources.md").is_file()


def test_a_secret_of_somebody_elses_stack_is_none_that_was_left(account: AccountServer) -> None:
    """It was found by its name alone."""
    account.answers |= leftovers()
    secret = account.answers["ListSecrets"]["SecretList"][0]["ARN"]
    owned = {"PhysicalResourceId": secret, "ResourceStatus": "CREATE_COMPLETE"}
    account.answers["DescribeStackResources"] = {"StackResources": [owned]}
    names = {resource.name for resource in find_kept(AwsAccount("us-east-1"), with_domain())}
    assert secret not in names
    account.answers["DescribeStackResources"] = {
        "StackResources": [owned | {"ResourceStatus": "DELETE_SKIPPED"}]
    }
    names = {resource.name for resource in find_kept(AwsAccount("us-east-1"), with_domain())}
    assert secret in names


def test_a_table_of_somebody_elses_stack_is_none_that_was_left(account: AccountServer) -> None:
    """An EvenflowService may have the environment's name and tags, in a stack of another name."""
    account.answers |= leftovers()
    tables = account.answers["GetResources"]["ResourceTagMappingList"]
    tables[0]["Tags"] = [{"Key": "aws:cloudformation:stack-name", "Value": "Mine"}]
    tables[1]["Tags"] = [{"Key": "aws:cloudformation:stack-name", "Value": "evenflow-prod-data"}]
    live = {"PhysicalResourceId": "evenflow-prod-sessions", "ResourceType": "AWS::DynamoDB::Table"}

    def resources(query: dict[str, list[str]]) -> Any:
        if query["StackName"] == ["evenflow-prod-data"]:
            return "ValidationError"  # it has been deleted
        mine = query["StackName"] == ["Mine"]
        owned = [live | {"ResourceStatus": "CREATE_COMPLETE"}] if mine else []
        return {"StackResourceSummaries": owned}

    account.answers["ListStackResources"] = resources
    names = {resource.name for resource in find_kept(AwsAccount("us-east-1"), with_domain())}
    assert "evenflow-prod-sessions" not in names
    assert "evenflow-prod-ledger" in names


def test_the_log_of_the_web_acl_is_found_where_it_is(account: AccountServer) -> None:
    """Its name is taken, too, and it is in us-east-1."""
    name = "aws-waf-logs-evenflow-prod-eu-west-1"

    def groups(_query: dict[str, list[str]]) -> Any:
        asked = json.loads(account.bodies[-1])["logGroupNamePrefix"]
        return {"logGroups": [{"logGroupName": name}] if name.startswith(asked) else []}

    account.answers |= leftovers() | {"DescribeLogGroups": groups}
    settings = environment("prod", region="eu-west-1")
    (log,) = (r for r in find_kept(AwsAccount("eu-west-1"), settings) if r.kind == LOG_GROUP)
    assert (log.name, log.region, log.takes_name) == (name, "us-east-1", True)
    account.answers["DeleteLogGroup"] = {}
    delete(AwsAccount("eu-west-1"), log)
    assert "/us-east-1/logs/" in account.scopes[-1]


def test_a_key_that_is_to_be_deleted_is_not_listed_again(account: AccountServer) -> None:
    for state, listed in (("Enabled", True), ("PendingDeletion", False)):
        account.answers |= leftovers(state)
        kinds = {resource.kind for resource in find_kept(AwsAccount("us-east-1"), with_domain())}
        assert ("AWS::KMS::Key" in kinds) is listed


def test_an_account_that_has_everything_is_ready(account: AccountServer) -> None:
    findings = found(with_domain())
    assert {name: f.found for name, f in findings.items() if f.severity is not Severity.GOOD} == {}
    assert list(findings) == [
        *("image builder", "credentials", "alarms, pages", "alarms, notices"),
        "CDK bootstrap, us-east-1",
        "kept resources",
        *("VPCs of the region", "internet gateways of the region", "VPC Block Public Access"),
        "CloudFront, verified account",
        *(quota.name for quota in EDGE_QUOTAS),
        "certificate",
        *("model access", "model life-cycle", "inference profile"),
        *("Lambda concurrent executions", "Fargate On-Demand vCPU"),
        "DynamoDB writes a second of a table",
        "Bedrock tokens a minute for us.anthropic.claude-haiku-4-5-20251001-v1:0",
        "update",
    ]
    assert as_table(list(findings.values())).endswith("ready to deploy")


def test_it_calls_nothing_that_its_policy_does_not_allow(account: AccountServer) -> None:
    account.answers["GetServiceQuota"] = "NoSuchResourceException"
    account.answers["GetAWSDefaultServiceQuota"] = {"Quota": {"Value": 50_000.0}}
    account.answers["ListServiceQuotas"] = {"Quotas": []}
    account.answers |= leftovers()
    account.answers |= {"DescribeVpcs": vpcs("evenflow-prod"), **blocked("block-bidirectional")}
    account.answers["DescribeStacks"] = {
        "Stacks": [{"StackName": "evenflow-prod-data", "StackStatus": "CREATE_COMPLETE"}]
    }
    account.answers["GetTemplate"] = {"TemplateBody": '{"Resources": {}}'}
    found(with_domain())
    found(with_domain().model_copy(update={"image": IMAGE}))
    assert set(account.asked) == {action.partition(":")[2] for action in ACTIONS}
    (statement,) = policy()["Statement"]
    for action in statement["Action"]:
        assert action.partition(":")[2].startswith(("Get", "List", "Describe"))


def vpcs(*names: str) -> Answers:
    """What DescribeVpcs answers."""
    tagged = [
        {"vpcId": f"vpc-{name}", "tagSet": {"item": [{"key": "Name", "value": name}]}}
        for name in names
    ]
    return {"vpcSet": {"item": tagged}}


def blocked(mode: str, *excluded: str, state: str = "create-complete") -> Answers:
    """What AWS answers about VPC Block Public Access."""
    exclusions = [
        {
            "resourceArn": f"arn:aws:ec2:us-east-1:111111111111:vpc/{vpc}",
            "internetGatewayExclusionMode": "allow-bidirectional",
            "state": state,
        }
        for vpc in excluded
    ]
    return {
        "DescribeVpcBlockPublicAccessOptions": {
            "vpcBlockPublicAccessOptions": {"internetGatewayBlockMode": mode}
        },
        "DescribeVpcBlockPublicAccessExclusions": {
            "vpcBlockPublicAccessExclusionSet": {"item": exclusions}
        },
    }


def subscribed(email: str, arn: str) -> Answers:
    """What ListSubscriptionsByTopic answers."""
    return {"Subscriptions": [{"Endpoint": email, "SubscriptionArn": arn}]}


def test_a_region_that_is_full_has_no_room_for_another_vpc(account: AccountServer) -> None:
    account.answers["GetServiceQuota"] = {"Quota": {"Value": 5.0}}
    account.answers["DescribeVpcs"] = vpcs("a", "b", "c", "d")
    gateways = [{"internetGatewayId": f"igw-{number}"} for number in range(5)]
    account.answers["DescribeInternetGateways"] = {"internetGatewaySet": {"item": gateways}}
    findings = found(environment("dev"))
    assert findings["VPCs of the region"].severity is Severity.GOOD
    full = findings["internet gateways of the region"]
    assert (full.severity, full.found) == (Severity.BAD, "5 of 5, and one more is needed")
    account.answers["DescribeVpcs"] = vpcs("a", "b", "c", "d", "e")
    assert found(environment("dev"))["VPCs of the region"].severity is Severity.BAD
    account.answers["DescribeVpcs"] = vpcs("a", "b", "c", "d", "evenflow-dev")
    for name in ("VPCs of the region", "internet gateways of the region"):
        assert found(environment("dev"))[name].found.endswith("ours among them")


@pytest.mark.parametrize(
    ("names", "answers", "severity"),
    [
        ((), blocked("block-bidirectional"), Severity.BAD),
        ((), blocked("block-ingress"), Severity.BAD),
        (("evenflow-dev",), blocked("block-ingress"), Severity.BAD),
        (("evenflow-dev",), blocked("block-ingress", "vpc-other"), Severity.BAD),
        (("evenflow-dev",), blocked("block-ingress", "vpc-evenflow-dev"), Severity.GOOD),
        (("evenflow-dev",), blocked("block-ingress", "vpc-evenflow-dev", state="delete-complete"),
         Severity.BAD),
    ],
)  # fmt: skip
def test_a_vpc_that_cloudfront_may_not_reach_is_found(
    account: AccountServer, names: tuple[str, ...], answers: Answers, severity: Severity
) -> None:
    account.answers |= {"DescribeVpcs": vpcs(*names), **answers}
    assert found(environment("dev"))["VPC Block Public Access"].severity is severity


def test_an_account_without_a_distribution_may_have_to_be_verified(account: AccountServer) -> None:
    account.answers["ListDistributions"] = {"Items": {}}
    finding = found(environment("dev"))["CloudFront, verified account"]
    assert finding.severity is Severity.WARNING
    assert "Your account must be verified" in finding.to_do


@pytest.mark.parametrize(
    ("foreign_count", "own_count", "severity"),
    [(18, 0, Severity.GOOD), (19, 0, Severity.WARNING), (18, 2, Severity.GOOD)],
)
def test_cloudfronts_policies_are_counted_and_ours_only_once(
    account: AccountServer, foreign_count: int, own_count: int, severity: Severity
) -> None:
    names = [f"other-{number}" for number in range(foreign_count)]
    names += [f"evenflow-dev-us-east-1-{number}" for number in range(own_count)]
    policies = [{"CachePolicy": {"CachePolicyConfig": {"Name": name}}} for name in names]
    account.answers["ListCachePolicies"] = {"Items": {"CachePolicySummary": policies}}
    assert found(environment("dev"))["CloudFront cache policies"].severity is severity


def test_as_many_of_cloudfronts_policies_are_counted_as_templates_make(
    synthesized: Synthesize,
) -> None:
    for quota in EDGE_QUOTAS:
        assert len(synthesized("prod").of_type(quota.kind)) == quota.needed, quota.name


@pytest.mark.parametrize(
    ("answer", "severity", "message"),
    [
        ("NotFound", Severity.GOOD, "gets a mail from SNS"),
        (subscribed("on-call@example.com", "arn:aws:sns:us-east-1:1:t:s"), Severity.GOOD,
         "has confirmed"),
        (subscribed("on-call@example.com", "PendingConfirmation"), Severity.WARNING,
         "has not confirmed"),
        (subscribed("x@example.com", "arn:aws:sns:us-east-1:1:t:s"), Severity.WARNING,
         "is not subscribed"),
    ],
)  # fmt: skip
def test_whom_alarms_wake_must_have_confirmed(
    account: AccountServer, answer: Answers | str, severity: Severity, message: str
) -> None:
    account.answers["ListSubscriptionsByTopic"] = answer
    finding = found(paging(environment("prod")))["alarms, pages"]
    assert finding.severity is severity
    assert message in finding.found
    deployed = {finding.name: finding for finding in pager(paging(environment("prod")))}
    confirmed = message == "has confirmed"
    assert (deployed["alarms, pages"].severity is Severity.GOOD) is confirmed
    assert not list(pager(environment("dev")))[1:], "dev pages no one"


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("DescribeVpcs", "VPCs of the region"),
        ("DescribeInternetGateways", "internet gateways of the region"),
        ("DescribeVpcBlockPublicAccessOptions", "VPC Block Public Access"),
        ("ListDistributions", "CloudFront, verified account"),
        ("ListVpcOrigins", "CloudFront VPC origins"),
        ("ListSubscriptionsByTopic", "alarms, pages"),
    ],
)
def test_what_is_not_answered_is_said(account: AccountServer, operation: str, name: str) -> None:
    account.answers[operation] = "AccessDenied"
    finding = found(paging(environment("prod")))[name]
    assert finding.severity is Severity.BAD
    assert finding.found.endswith("AccessDenied: refused")


@pytest.mark.parametrize(
    ("operation", "change", "name", "severity", "said"),
    [
        (
            *("GetFoundationModelAvailability", {"agreementAvailability": {"status": "PENDING"}}),
            *("model access", Severity.BAD, "Marketplace subscription PENDING"),
        ),
        (
            *("GetFoundationModelAvailability", {"authorizationStatus": "NOT_AUTHORIZED"}),
            *("model access", Severity.BAD, "the account may not use"),
        ),
        (
            *("GetFoundationModelAvailability", {"regionAvailability": "NOT_AVAILABLE"}),
            *("model access", Severity.BAD, "is not in us-east-1"),
        ),
        (
            *("GetFoundationModelAvailability", {"entitlementAvailability": "NOT_AVAILABLE"}),
            *("model access", Severity.BAD, "no entitlement"),
        ),
        (
            *("GetFoundationModelAvailability", "AccessDeniedException"),
            *("model access", Severity.BAD, "AccessDeniedException"),
        ),
        (
            "GetFoundationModel",
            {
                "modelDetails": {
                    "modelName": "Claude Haiku 4.5",
                    "responseStreamingSupported": True,
                    "modelLifecycle": {
                        "status": "LEGACY",
                        "endOfLifeTime": "2027-01-31T00:00:00Z",
                    },
                }
            },
            *("model life-cycle", Severity.WARNING, "is LEGACY until 2027-01-31"),
        ),
        (
            *("GetFoundationModel", "ResourceNotFoundException"),
            *("model life-cycle", Severity.BAD, "ResourceNotFoundException"),
        ),
        (
            "GetInferenceProfile",
            {"models": [{"modelArn": "arn:aws:bedrock:us-gov-west-1::foundation-model/x"}]},
            *("inference profile", Severity.BAD, "also leads to us-gov-west-1"),
        ),
        (
            *("GetParameter", {"Parameter": {"Name": "v", "Value": "5"}}),
            *("CDK bootstrap, us-east-1", Severity.BAD, "version 5, and 6 is needed"),
        ),
        (
            *("GetParameter", "ParameterNotFound"),
            *("CDK bootstrap, us-east-1", Severity.BAD, "there is none (ParameterNotFound)"),
        ),
        (
            *("GetServiceQuota", {"Quota": {"Value": 10.0}}),
            *("Fargate On-Demand vCPU", Severity.BAD, "10, and 80 are needed"),
        ),
        (
            *("GetServiceQuota", {"Quota": {"Value": 10.0}}),
            *("Lambda concurrent executions", Severity.BAD, "10, and 801 are needed"),
        ),
        (
            *("GetServiceQuota", {"Quota": {"Value": 4_000.0}}),
            *("DynamoDB writes a second of a table", Severity.WARNING, "4,000, and 6,667"),
        ),
        (
            *("GetServiceQuota", "AccessDeniedException"),
            *("Fargate On-Demand vCPU", Severity.BAD, "AccessDeniedException"),
        ),
        (
            "GetFoundationModel",
            {
                "modelDetails": {
                    "modelName": "Claude Haiku 4.5",
                    "responseStreamingSupported": False,
                }
            },
            *("model life-cycle", Severity.BAD, "Claude Haiku 4.5 can't stream"),
        ),
        (
            *("GetInferenceProfile", {"status": "CREATING"}),
            *("inference profile", Severity.BAD, "it is CREATING"),
        ),
        (
            *("ListServiceQuotas", "AccessDeniedException"),
            "Bedrock tokens a minute for us.anthropic.claude-haiku-4-5-20251001-v1:0",
            *(Severity.BAD, "AccessDeniedException"),
        ),
    ],
)
def test_what_an_account_lacks_is_found_with_what_to_do(
    account: AccountServer,
    operation: str,
    change: Answers | str,
    name: str,
    severity: Severity,
    said: str,
) -> None:
    before = account.answers[operation]
    account.answers[operation] = change if isinstance(change, str) else before | change
    finding = found(environment("prod"))[name]
    assert (finding.severity, finding.to_do == "") == (severity, False)
    assert said in finding.found


def test_a_quota_that_was_never_raised_is_the_default_one(account: AccountServer) -> None:
    account.answers["GetServiceQuota"] = "NoSuchResourceException"
    account.answers["GetAWSDefaultServiceQuota"] = {"Quota": {"Value": 6.0}}
    finding = found(environment("prod"))["Fargate On-Demand vCPU"]
    assert finding.found.startswith("6, and 80 are needed")


@pytest.mark.parametrize(
    ("quotas", "said"),
    [
        ([("Cross-Region InvokeModel tokens per minute for Claude Haiku 4.5", 1e6)], "1,000,000,"),
        ([("Cross-Region InvokeModel tokens per minute for Claude Haiku 4.4", 1e9)], "names none"),
    ],
)
def test_too_few_tokens_for_the_model_are_a_warning(
    account: AccountServer, quotas: list[tuple[str, float]], said: str
) -> None:
    account.answers["ListServiceQuotas"] = {
        "Quotas": [{"QuotaName": name, "Value": value} for name, value in quotas]
    }
    settings = environment("prod")
    name = f"Bedrock tokens a minute for {settings.inference.bedrock.inference_profile}"
    finding = found(settings)[name]
    assert finding.severity is Severity.WARNING
    assert said in finding.found
    assert "13,096,000" in finding.found


OF_MODELS = "Cross-Region InvokeModel tokens per minute for Anthropic"


@pytest.mark.parametrize(
    ("model", "names", "value"),
    [
        ("Claude Sonnet 4", {"Claude Sonnet 4.5 V1": 45, "Claude Sonnet 4 V1": 4}, "4,"),
        ("Claude Sonnet 4", {"Claude Sonnet 4 V1 1M Context Length": 41, "Claude Sonnet 4 V1": 4},
         "4,"),
        ("Claude 3.5 Sonnet", {"Claude 3.5 Sonnet V2": 2, "Claude 3.5 Sonnet": 1}, "1,"),
        ("Claude Sonnet 4", {"Claude Sonnet 45 V1": 45}, "Service Quotas names none"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("listing", ["ListServiceQuotas", "ListAWSDefaultServiceQuotas"])
def test_a_quota_of_another_model_is_not_taken_and_a_default_is(
    account: AccountServer, listing: str, model: str, names: dict[str, int], value: str
) -> None:
    details = account.answers["GetFoundationModel"]["modelDetails"]
    details["modelName"] = model
    account.answers["ListServiceQuotas"] = {"Quotas": []}
    account.answers[listing] = {
        "Quotas": [
            {"QuotaName": f"{OF_MODELS} {name}", "Value": value} for name, value in names.items()
        ]
    }
    settings = environment("prod")
    name = f"Bedrock tokens a minute for {settings.inference.bedrock.inference_profile}"
    assert found(settings)[name].found.startswith(value)


@pytest.mark.parametrize(
    ("instances", "severity"), [(2, Severity.GOOD), (4, Severity.GOOD), (1, Severity.BAD)]
)
def test_gpus_are_counted_by_the_name_of_their_instance(
    account: AccountServer, instances: int, severity: Severity
) -> None:
    data = environment("dev").model_dump()
    data["inference"]["kind"] = "sagemaker"
    account.answers["ListServiceQuotas"]["Quotas"][-1]["Value"] = instances
    name = "SageMaker ml.g6e.xlarge for endpoint usage"
    finding = found(EnvironmentSettings.model_validate(data))[name]
    assert finding.found.startswith(f"{instances}, and 2 are needed")
    assert finding.severity is severity


def test_writes_above_what_a_new_table_takes_are_a_warning_below_the_quota(
    account: AccountServer,
) -> None:
    finding = found(environment("dev"))["DynamoDB writes a second of a table"]
    assert finding.found.startswith("50,000, and 6,667 are needed")
    assert finding.severity is Severity.WARNING
    assert finding.to_do.startswith("raise data.warm_writes_per_second")


def test_an_environment_with_users_needs_somebody_to_wake(account: AccountServer) -> None:
    for name in ("staging", "prod"):
        finding = found(environment(name))["pager"]
        assert finding.severity is Severity.BAD
        assert "page_email" in finding.to_do
        assert "pager" not in found(paging(environment(name)))
    assert "pager" not in found(environment("dev"))


def test_a_certificate_that_may_not_be_asked_for_is_found(account: AccountServer) -> None:
    account.answers["DescribeCertificate"] = "AccessDeniedException"
    finding = found(with_domain())["certificate"]
    assert finding.severity is Severity.BAD
    assert "AccessDeniedException" in finding.found
    assert "--policy" in finding.to_do


@pytest.mark.parametrize(
    ("change", "severity", "said"),
    [
        ({"Status": "PENDING_VALIDATION"}, Severity.BAD, "it is PENDING_VALIDATION"),
        ({"NotAfter": NOW.timestamp() - 1}, Severity.BAD, "it ended on 2026-11-22"),
        ({"NotAfter": NOW.timestamp() + 86_400}, Severity.WARNING, "it ends on 2026-11-24"),
        ({"SubjectAlternativeNames": ["*.chat.example.com"]}, Severity.BAD, "not for chat.example"),
    ],
)
def test_a_certificate_that_cloudfront_cannot_use_is_found(
    account: AccountServer, change: Answers, severity: Severity, said: str
) -> None:
    account.answers["DescribeCertificate"]["Certificate"] |= change
    finding = found(with_domain())["certificate"]
    assert finding.severity is severity
    assert said in finding.found


def test_a_certificate_of_another_region_is_not_even_asked_for(account: AccountServer) -> None:
    arn = "arn:aws:acm:eu-central-1:111111111111:certificate/1"
    finding = found(with_domain(certificate_arn=arn))["certificate"]
    assert (finding.severity, finding.found) == (Severity.BAD, "it is in eu-central-1")
    assert "DescribeCertificate" not in account.asked


def test_an_image_that_is_named_must_be_there_and_needs_no_builder(
    account: AccountServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDK_DOCKER", "no-such-builder")
    settings = environment("dev").model_copy(update={"image": IMAGE})
    findings = found(settings)
    assert "image builder" not in findings
    assert findings["image"].severity is Severity.GOOD
    account.answers["DescribeImages"] = "ImageNotFoundException"
    missing = found(settings)["image"]
    assert (missing.severity, missing.found) == (Severity.BAD, f"{IMAGE}: ImageNotFoundException")
    assert "push it" in missing.to_do


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("GetParameter", "CDK bootstrap, us-east-1"),
        ("DescribeImages", "image"),
        ("DescribeCertificate", "certificate"),
    ],
)
def test_what_may_not_be_asked_is_not_called_missing(
    account: AccountServer, operation: str, name: str
) -> None:
    account.answers[operation] = "AccessDeniedException"
    finding = found(with_domain().model_copy(update={"image": IMAGE}))[name]
    assert finding.severity is Severity.BAD
    assert finding.found.endswith(": AccessDeniedException: refused")
    assert "--policy" in finding.to_do


def test_an_image_of_another_registry_is_not_looked_at(account: AccountServer) -> None:
    elsewhere = environment("dev").model_copy(update={"image": "registry.example.com/evenflow:1"})
    assert found(elsewhere)["image"].severity is Severity.WARNING
    assert "DescribeImages" not in account.asked


@pytest.mark.parametrize(
    ("name", "regions"),
    [("dev", ["eu-central-1"]), ("prod", ["eu-central-1", "us-east-1"])],
)
def test_each_region_with_a_stack_needs_a_bootstrap(
    account: AccountServer, name: str, regions: list[str]
) -> None:
    findings = found(environment(name, region="eu-central-1"))
    bootstraps = [name for name in findings if name.startswith("CDK bootstrap")]
    assert bootstraps == [f"CDK bootstrap, {region}" for region in regions]
    assert findings["credentials"].found == "account 111111111111, region eu-central-1"


def test_without_credentials_nothing_else_is_asked(account: AccountServer) -> None:
    account.answers["GetCallerIdentity"] = "ExpiredToken"
    findings = found(environment("prod"))
    assert list(findings) == ["image builder", "pager", "credentials"]
    assert "ExpiredToken" in findings["credentials"].found
    assert "aws sso login" in findings["credentials"].to_do


def test_a_profile_that_does_not_exist_is_a_finding(
    account: AccountServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nonesuch")
    finding = found(environment("dev"))["credentials"]
    assert (finding.severity, "(nonesuch)" in finding.found) == (Severity.BAD, True)
    assert "AWS_PROFILE" in finding.to_do


@pytest.mark.parametrize(
    ("info", "platforms", "said"),
    [
        (
            "echo Client:; printf 'ERROR: no daemon\\nerrors in all\\n' >&2; exit 1",
            *("", "doesn't run: ERROR: no daemon errors in all"),
        ),
        ("exit 0", "linux/amd64", "builds for x86_64 alone"),
    ],
)
def test_a_builder_that_cannot_make_the_image_is_found(
    account: AccountServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    info: str,
    platforms: str,
    said: str,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("CDK_DOCKER", str(builder(tmp_path, info, platforms)))
    finding = found(environment("dev"))["image builder"]
    assert finding.severity is Severity.BAD
    assert finding.found.endswith(said)
    assert "Client:" not in finding.found


def test_a_builder_that_does_not_answer_is_found(
    account: AccountServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(image, "_SECONDS", 0.1)
    monkeypatch.setenv("CDK_DOCKER", str(builder(tmp_path, info="exec tail -f /dev/null")))
    finding = found(environment("dev"))["image builder"]
    assert finding.severity is Severity.BAD
    assert "doesn't run: no answer in 0.1 s" in finding.found


def test_a_builder_that_is_not_there_is_found(
    account: AccountServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDK_DOCKER", "no-such-builder")
    assert found(environment("dev"))["image builder"].found == "no-such-builder is not installed"


def test_the_commands_status_says_whether_to_deploy(account: AccountServer, tmp_path: Path) -> None:
    def status_of(endpoint: str, *more: str) -> tuple[int, str]:
        variables = {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint, "AWS_MAX_ATTEMPTS": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "evenflow.infra.preflight", *more],
            cwd=tmp_path,
            env=clean_environment({**variables, "PYTHONPATH": str(ROOT)}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    assert status_of(account.endpoint)[0] == 2
    (tmp_path / "cdk.out").mkdir()
    write_settings(environment("dev", installation="acme"), tmp_path / "cdk.out")
    ready, table = status_of(account.endpoint)
    assert (ready, "ready to deploy" in table) == (0, True)
    assert table.startswith("acme-dev in us-east-1, as it was synthesized last:\n")
    missing, table = status_of(f"http://127.0.0.1:{free_port()}")
    assert (missing, "✗ credentials" in table) == (1, True)
    reached, table = status_of(account.endpoint, "--pager")
    assert (reached, table.splitlines()[-1]) == (0, "alarms reach confirmed addresses")
    status, printed = status_of(account.endpoint, "--policy")
    assert (status, json.loads(printed)) == (0, policy())
