"""Somebody else's CDK app uses the construct: from a wheel, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.clone import clone_sources
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.synthesis import ROOT

_IMPORT = """
import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2, aws_ecs as ecs, aws_route53 as route53
from evenflow.cdk import CloudFront, EvenflowService, service_settings
"""
_SHOP = f"""{_IMPORT}
app = cdk.App(outdir="out")
stack = cdk.Stack(app, "Shop", env=cdk.Environment(region="us-east-1"))
vpc = ec2.Vpc(stack, "Vpc")
service = EvenflowService(
    stack, "Chat",
    vpc=vpc, cluster=ecs.Cluster(stack, "Cluster", vpc=vpc),
    front=CloudFront(zone=route53.PublicHostedZone(stack, "Zone", zone_name="chat.example.com")),
    settings=service_settings(stack, image="registry.example.com/evenflow:1"),
)
cdk.CfnOutput(stack, "ChatUrl", value=service.url)
app.synth()
"""
_ALONE = f"""{_IMPORT}
from cdk_nag import AwsSolutionsChecks
app = cdk.App(outdir="out")
env = cdk.Environment(region="eu-west-1")
one, two = cdk.Stack(app, "One", env=env), cdk.Stack(app, "Two", env=env)
image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/evenflow@sha256:" + "0" * 64
first = EvenflowService(one, "Chat", settings=service_settings(one, image=image))
settings = service_settings(two, image=image)
EvenflowService(two, "Chat", settings=settings, tables=first.data.tables)
cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
app.synth()
"""

_CHOOSY = f"""{_IMPORT}
from evenflow.cdk import AlarmSettings, TracingSettings
ecr = "111111111111.dkr.ecr.us-east-1.amazonaws.com/"
app = cdk.App(outdir="out")
stack = cdk.Stack(app, "Choosy", env=cdk.Environment(region="us-east-1"))
settings = service_settings(
    stack, "staging", image=ecr + "evenflow:1", canary=None, log_retention_days=90,
    tracing=TracingSettings(collector_image=ecr + "adot@sha256:" + "0" * 64),
    alarms=AlarmSettings(page_email="on-call@example.com", monthly_budget_dollars=500),
)
EvenflowService(stack, "Chat", settings=settings)
app.synth()
"""


# Everything is there already: the VPC, the load balancer, its listener, and folders that are called
# as ours are.
_EXISTING = """
import aws_cdk as cdk
from evenflow.cdk import EvenflowService, ExistingListener, OnlyLoadBalancer, service_settings
from infra.shop import listener, load_balancer, vpc
app = cdk.App(outdir="out")
stack = cdk.Stack(app, "Shop", env=cdk.Environment(region="us-east-1"))
EvenflowService(
    stack, "Chat", vpc=vpc(stack),
    settings=service_settings(stack, image="registry.example.com/evenflow:1"),
    front=OnlyLoadBalancer(domain_name="shop.internal"),
    listener=ExistingListener(
        load_balancer=load_balancer(stack), listener=listener(stack), priority=500
    ),
)
app.synth()
"""
_THEIR_SHOP = """
from aws_cdk import aws_ec2 as ec2, aws_elasticloadbalancingv2 as elbv2
_ARN, _GROUP = "arn:aws:elasticloadbalancing:us-east-1:111111111111:", "sg-0123456789abcdef0"
def vpc(stack):
    return ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-0123456789abcdef0", vpc_cidr_block="10.0.0.0/16",
        availability_zones=["us-east-1a", "us-east-1b"],
        private_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    )
def load_balancer(stack):
    return elbv2.ApplicationLoadBalancer.from_application_load_balancer_attributes(
        stack, "Balancer", load_balancer_arn=_ARN + "loadbalancer/app/shop/1",
        security_group_id=_GROUP,
    )
def listener(stack):
    return elbv2.ApplicationListener.from_application_listener_attributes(
        stack, "Listener", listener_arn=_ARN + "listener/app/shop/1/2",
        security_group=ec2.SecurityGroup.from_security_group_id(stack, "Group", _GROUP),
    )
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what `pip install` of the wheel puts beside other packages."""
    sources, installed = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("installed")
    clone_sources(sources)
    shutil.copytree(ROOT / "web" / "dist", sources / "web" / "dist")
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(installed)], cwd=sources, check=True, capture_output=True,
        env={**os.environ, "EVENFLOW_COMPILED": "0"},
    )  # fmt: skip
    (wheel,) = installed.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(installed)
    return installed


def _run(app: str, installed: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # The dependencies of the functions were downloaded for other tests.
    (folder / "cache" / "evenflow").mkdir(parents=True)
    (folder / "cache" / "evenflow" / "functions").symlink_to(ROOT / ".build" / "functions")
    variables = {
        **os.environ, "PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(folder / "cache")
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", app],
        cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def _templates(app: str, installed: Path, folder: Path) -> list[dict[str, Any]]:
    done = _run(app, installed, folder)
    assert done.returncode == 0, done.stderr
    return [
        json.loads(template.read_text("utf-8"))
        for template in sorted((folder / "out").glob("*.template.json"))
    ]


def _of_type(kind: str, *templates: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        resource.get("Properties", {})
        for template in templates
        for resource in template["Resources"].values()
        if resource["Type"] == kind
    ]


def test_it_takes_what_the_app_has_already(installed: Path, tmp_path: Path) -> None:
    assert len(_SHOP.strip().splitlines()) <= 15
    (template,) = _templates(_SHOP, installed, tmp_path)

    assert len(_of_type("AWS::EC2::VPC", template)) == 1
    assert len(_of_type("AWS::ECS::Cluster", template)) == 1
    (service,) = _of_type("AWS::ECS::Service", template)
    subnets = service["NetworkConfiguration"]["AwsvpcConfiguration"]["Subnets"]
    assert all("PrivateSubnet" in subnet["Ref"] for subnet in subnets)
    (task,) = _of_type("AWS::ECS::TaskDefinition", template)
    assert task["ContainerDefinitions"][0]["Image"] == "registry.example.com/evenflow:1"

    assert {record["Name"] for record in _of_type("AWS::Route53::RecordSet", template)} == {
        "chat.example.com."
    }
    listeners = _of_type("AWS::ElasticLoadBalancingV2::Listener", template)
    assert [(listener["Protocol"], listener["Port"]) for listener in listeners] == [
        ("HTTP", 80),
        ("HTTPS", 443),
    ]
    origin = json.dumps(_of_type("AWS::CloudFront::VpcOrigin", template))
    assert '"OriginProtocolPolicy": "https-only"' in origin
    assert template["Outputs"]["ChatUrl"]["Value"] == "https://chat.example.com"
    # W3045: without our feature flags CDK writes the bucket of access logs an ACL.
    found = [match for match in findings(template) if match.rule.id not in ("W3005", "W3045")]
    assert not found


def test_it_goes_beside_packages_of_the_same_names_behind_what_is_there(
    installed: Path, tmp_path: Path
) -> None:
    assert len(_EXISTING.strip().splitlines()) <= 15
    for name in ("infra", "functions"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("", "utf-8")
    (tmp_path / "infra" / "shop.py").write_text(_THEIR_SHOP, "utf-8")
    (template,) = _templates(_EXISTING, installed, tmp_path)

    for kind in ("EC2::VPC", "ElasticLoadBalancingV2::LoadBalancer", "CloudFront::Distribution"):
        assert not _of_type(f"AWS::{kind}", template)
    rules = _of_type("AWS::ElasticLoadBalancingV2::ListenerRule", template)
    assert {rule["ListenerArn"].rsplit(":", 1)[-1] for rule in rules} == {"listener/app/shop/1/2"}
    # The functions' code is that of the wheel, under its own name.
    bundles = [path.parent for path in (tmp_path / "out").glob("asset.*/evenflow")]
    assert bundles
    for bundle in bundles:
        assert (bundle / "evenflow" / "functions").is_dir()
        assert not {"infra", "functions"} & {path.name for path in bundle.iterdir()}


def test_the_wheel_has_one_package_with_everything(installed: Path) -> None:
    (wheel,) = installed.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"evenflow"}
    modules = {
        path.relative_to(ROOT).as_posix()
        for folder in (ROOT / "evenflow").iterdir()
        if folder.is_symlink()
        for path in (ROOT / folder.name).rglob("*.py")
        if "node_modules" not in path.parts
    }
    assert len(modules) > 300
    assert {f"evenflow/{name}" for name in modules} <= names
    for name in ("infra/constructs/edge/viewer_host.js", "web/dist/index.html", "docs/protocol.md",
                 "docs/runbooks/users-are-hurting.md", "requirements/functions.txt"):  # fmt: skip
        assert f"evenflow/{name}" in names
    assert "evenflow/docs/generate.py" not in names


def test_it_needs_no_argument_but_an_image_and_two_of_it_are_apart(
    installed: Path, tmp_path: Path
) -> None:
    """cdk-nag finds nothing, or the app would fail."""
    templates = _templates(_ALONE, installed, tmp_path)
    names = [table["TableName"] for table in _of_type("AWS::DynamoDB::Table", *templates)]
    assert len(set(names)) == len(names) == 4, "the second has the tables of the first"
    assert len(_of_type("AWS::EC2::VPC", *templates)) == 2
    for template in templates:
        _check_order(template)
    alarms = [
        alarm["AlarmName"]
        for alarm in _of_type("AWS::CloudWatch::Alarm", *templates)
        if "AlarmName" in alarm
    ]
    assert len(alarms) > 40
    assert len(set(alarms)) == len(alarms)
    secrets = _of_type("AWS::SecretsManager::Secret", *templates)
    keys = [secret["GenerateSecretString"]["GenerateStringKey"] for secret in secrets]
    assert keys.count("public") == 2, "nobody opens sessions without a key"
    for task in _of_type("AWS::ECS::TaskDefinition", *templates):
        image = json.dumps(task["ContainerDefinitions"][0]["Image"])
        assert "111111111111.dkr.ecr.eu-west-1." in image
        assert "/evenflow@sha256:0000" in image
    pulling = [
        statement["Resource"]
        for policy in _of_type("AWS::IAM::Policy", *templates)
        for statement in policy["PolicyDocument"]["Statement"]
        if "ecr:BatchGetImage" in statement["Action"]
    ]
    assert pulling == ["arn:aws:ecr:eu-west-1:111111111111:repository/evenflow"] * 2


def _check_order(template: dict[str, Any]) -> None:
    """What one stack must be told of its order.

    EC2 refuses a route to an internet gateway that isn't attached yet, and CloudFront must find
    the listener to which it moves.
    """
    resources = template["Resources"]
    for later, earlier in (
        ("AWS::EC2::Route", "AWS::EC2::VPCGatewayAttachment"),
        ("AWS::CloudFront::VpcOrigin", "AWS::ElasticLoadBalancingV2::Listener"),
    ):
        before = {name for name, each in resources.items() if each["Type"] == earlier}
        waiting = [each for each in resources.values() if each["Type"] == later]
        assert waiting, later
        assert before, earlier
        assert all(before <= set(each.get("DependsOn", ())) for each in waiting), later


def test_there_may_be_no_canary_and_traces_logs_and_a_budget_are_chosen(
    installed: Path, tmp_path: Path
) -> None:
    (template,) = _templates(_CHOOSY, installed, tmp_path)
    functions = _of_type("AWS::Lambda::Function", template)
    assert not [function for function in functions if "EVENFLOW_QUESTION" in json.dumps(function)]
    (task,) = _of_type("AWS::ECS::TaskDefinition", template)
    assert "collector" in {container["Name"] for container in task["ContainerDefinitions"]}
    logs = _of_type("AWS::Logs::LogGroup", template)
    assert {log["RetentionInDays"] for log in logs} == {90}

    ((budget,), tables, (origin,)) = (
        _of_type(kind, template)
        for kind in (
            "AWS::Budgets::Budget",
            "AWS::DynamoDB::Table",
            "AWS::CloudFront::VpcOrigin",
        )
    )
    filters = [each["Tags"] for each in budget["Budget"]["FilterExpression"]["And"]]
    for table in tables:
        tags = {tag["Key"]: tag["Value"] for tag in table["Tags"]}
        assert [tags[each["Key"]] for each in filters] == [
            value for e in filters for value in e["Values"]
        ]
    assert "Tags" not in origin  # which CloudFront refuses to change while it is used


def _settings(changes: str) -> str:
    return f"settings=service_settings(stack, {changes})"


@pytest.mark.parametrize(
    ("arguments", "region", "said"),
    [
        ("", '"us-east-1"', "an installed package can't build the handler's image"),
        (
            _settings(
                '"staging", image="ghcr.io/acme/evenflow:1", '
                "alarms=AlarmSettings(nobody_is_paged=True)"
            ),
            '"us-east-1"',
            "pull from ECR of their own region",
        ),
        (_settings('"prod", image="i"'), '"us-east-1"', "alarms of prod page nobody"),
        (
            (
                "vpc=ec2.Vpc.from_vpc_attributes("
                'stack, "Vpc", vpc_id="vpc-1", availability_zones=["us-east-1a"])'
            ),
            '"us-east-1"',
            "give ec2.Vpc.from_vpc_attributes a vpc_cidr_block",
        ),
        ("", "None", "the stack Chat must name its region"),
        (_settings('image="i"'), '"sa-east-1"', "is not in infra/settings/regions.py"),
    ],
)
def test_what_is_missing_is_said(
    installed: Path, tmp_path: Path, arguments: str, region: str, said: str
) -> None:
    app = f"""{_IMPORT}
from evenflow.cdk import AlarmSettings
stack = cdk.Stack(cdk.App(), "Chat", env=cdk.Environment(region={region}))
EvenflowService(stack, "Chat", {arguments})
"""
    done = _run(app, installed, tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
