"""The role with which GitHub deploys: whom it trusts, and what it may do."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks

from evenflow.infra.account.account import ACTIONS
from evenflow.infra.deployer import DeployerStack, main
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.own_stacks import resources
from tests.infrastructure.synthesis import ROOT

Template = dict[str, Any]


def deployer_template(
    folder: Path,
    provider_arn: str | None = None,
    *,
    region: str = "us-east-1",
    installation: str = "evenflow",
    context: Mapping[str, str] | None = None,
) -> Template:
    """The stack, checked by cdk-nag."""
    context = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"] | (context or {})
    app = cdk.App(context=context, outdir=str(folder))
    DeployerStack(
        app,
        "deployer",
        repository="example/evenflow",
        environment="test-account",
        installation=installation,
        provider_arn=provider_arn,
        env=cdk.Environment(region=region),
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


def _allowed(template: Template) -> dict[str, Any]:
    """The resources by action."""
    (policy,) = resources(template, "AWS::IAM::Policy").values()
    return {
        action: statement["Resource"]
        for statement in policy["PolicyDocument"]["Statement"]
        for action in (
            [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        )
    }


def test_it_reads_and_asks_cdks_roles_to_change_things(template: Template) -> None:
    by_action = _allowed(template)
    assert by_action.keys() == {
        *ACTIONS,
        "sts:AssumeRole",
        "ec2:DescribeSecurityGroups",
        "ec2:DeleteSecurityGroup",
    }
    roles = json.dumps(by_action["sts:AssumeRole"])
    for name in ("deploy", "file-publishing", "image-publishing", "lookup"):
        assert f"role/cdk-hnb659fds-{name}-role-" in roles
    assert "cfn-exec" not in roles
    assert "*" not in roles
    for action in ("DescribeStacks", "GetTemplate"):
        assert "stack/evenflow-*/*" in json.dumps(by_action[f"cloudformation:{action}"])


def test_the_one_group_that_it_may_delete_is_cloudfronts(template: Template) -> None:
    (policy,) = resources(template, "AWS::IAM::Policy").values()
    (statement,) = (
        each
        for each in policy["PolicyDocument"]["Statement"]
        if each["Action"] == "ec2:DeleteSecurityGroup"
    )
    tag = "aws:ResourceTag/aws.cloudfront.vpcorigin"
    assert statement["Condition"] == {"StringEquals": {tag: "enabled"}}


def test_elsewhere_it_also_deploys_into_the_region_of_cloudfront(tmp_path: Path) -> None:
    by_action = _allowed(deployer_template(tmp_path, region="eu-central-1"))
    stacks = json.dumps(by_action["cloudformation:GetTemplate"])
    assert all(region in stacks for region in ("eu-central-1", "us-east-1"))
    roles = by_action["sts:AssumeRole"]
    ends = [role["Fn::Join"][1][-1].removeprefix("-") for role in roles]
    assert sorted(ends) == ["eu-central-1"] * 4 + ["us-east-1"] * 4


def test_the_role_of_an_installation_reads_its_outputs(tmp_path: Path) -> None:
    template = deployer_template(tmp_path, installation="acme")
    outputs = json.dumps(_allowed(template)["cloudformation:DescribeStacks"])
    assert "stack/acme-*/*" in outputs
    assert "evenflow" not in outputs
    (role,) = resources(template, "AWS::IAM::Role").values()
    assert role["RoleName"] == "acme-us-east-1-deployer"


def test_two_regions_of_an_account_have_a_deployer_each(tmp_path: Path) -> None:
    """Roles and GitHub's provider are the account's, whatever the region."""
    arn = "arn:aws:iam::111111111111:oidc-provider/token.actions.githubusercontent.com"
    here = deployer_template(tmp_path / "here")
    there = deployer_template(tmp_path / "there", arn, region="ap-southeast-2")
    names = [
        role["RoleName"]
        for template in (here, there)
        for role in resources(template, "AWS::IAM::Role").values()
    ]
    assert names == ["evenflow-us-east-1-deployer", "evenflow-ap-southeast-2-deployer"]
    assert not resources(there, "AWS::IAM::OIDCProvider")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["evenflow"], "'evenflow' must be owner/name"),
        (["example/evenflow", "--installation", "*"], "installation"),
        (["example/evenflow", "--region", "mars-north-1"], "mars-north-1"),
    ],
)
def test_wrong_arguments_are_refused_as_everywhere(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["evenflow.infra.deployer", *arguments])
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 2
    assert said in capsys.readouterr().err


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
