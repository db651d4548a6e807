"""The role with which GitHub deploys: whom it trusts, and what it may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks

from infra.deployer import DeployerStack
from infra.preflight.account import ACTIONS
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.own_stacks import resources
from tests.infrastructure.synthesis import ROOT

Template = dict[str, Any]


def deployer_template(folder: Path, provider_arn: str | None = None) -> Template:
    """The stack, checked by cdk-nag."""
    context = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]
    app = cdk.App(context=context, outdir=str(folder))
    DeployerStack(
        app,
        "deployer",
        repository="example/evenflow",
        environment="test-account",
        provider_arn=provider_arn,
        env=cdk.Environment(region="us-east-1"),
    )
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    template: Template = app.synth().get_stack_by_name("deployer").template  # raises on a finding
    return template


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """With a provider of its own."""
    return deployer_template(tmp_path_factory.mktemp("deployer"))


def test_it_trusts_jobs_of_one_environment_of_one_repository(template: Template) -> None:
    (role,) = resources(template, "AWS::IAM::Role").values()
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert statement["Condition"] == {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": (
                "repo:example/evenflow:environment:test-account"
            ),
        }
    }
    (provider,) = resources(template, "AWS::IAM::OIDCProvider")
    assert statement["Principal"] == {"Federated": {"Fn::GetAtt": [provider, "Arn"]}}


def test_it_reads_and_asks_cdks_roles_to_change_things(template: Template) -> None:
    (policy,) = resources(template, "AWS::IAM::Policy").values()
    by_action = {
        action: statement["Resource"]
        for statement in policy["PolicyDocument"]["Statement"]
        for action in (
            [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        )
    }
    assert by_action.keys() == {*ACTIONS, "sts:AssumeRole", "cloudformation:DescribeStacks"}
    roles = json.dumps(by_action["sts:AssumeRole"])
    for name in ("deploy", "file-publishing", "image-publishing", "lookup"):
        assert f"role/cdk-hnb659fds-{name}-role-" in roles
    assert "cfn-exec" not in roles
    assert "*" not in roles
    assert "stack/evenflow-*/*" in json.dumps(by_action["cloudformation:DescribeStacks"])


def test_it_has_no_key_and_no_managed_policy(template: Template) -> None:
    kinds = {resource["Type"] for resource in template["Resources"].values()}
    assert kinds == {"AWS::IAM::OIDCProvider", "AWS::IAM::Role", "AWS::IAM::Policy"}
    (role,) = resources(template, "AWS::IAM::Role").values()
    assert "ManagedPolicyArns" not in role


def test_cfn_lint_finds_nothing(template: Template) -> None:
    assert findings(template) == []


def test_a_provider_that_the_account_has_is_used(tmp_path: Path) -> None:
    arn = "arn:aws:iam::111111111111:oidc-provider/token.actions.githubusercontent.com"
    template = deployer_template(tmp_path, arn)
    assert not resources(template, "AWS::IAM::OIDCProvider")
    (role,) = resources(template, "AWS::IAM::Role").values()
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Federated": arn}
