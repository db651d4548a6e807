"""Runbooks on tables and on what a deployment leaves behind: their commands, on an emulated prod.

The emulator restores a table as it is now, whatever moment is named; it makes no backup of a table
that is deleted, imports no secret, and puts no tags of CloudFormation on buckets. The tests do the
last three in its place.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aws_cdk as cdk
import pytest

from evenflow.infra.account.kept_resources import SECRET
from evenflow.infra.application import build_application
from evenflow.infra.removal.deletion import CLOUDFRONT_GROUP
from evenflow.infra.settings.environments import environment
from tests.aws.cloud_assembly import run_cdk
from tests.aws.created_resources import created_properties
from tests.aws.ministack import ministack
from tests.aws.runbook import Shell, block_with
from tests.aws.template_comparison import differences
from tests.infrastructure.conftest import paging
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.server_process import ROOT

# Synthesizes and deploys, on a machine that others may be using.
pytestmark = pytest.mark.timeout(600)

_STACKS = ("evenflow-prod-data", "evenflow-prod-functions")
_TABLE = "AWS::DynamoDB::Table"
# What the emulator doesn't say of a table, or doesn't restore. Tags are looked at apart.
_NOT_DESCRIBED = (
    "PointInTimeRecoverySpecification.Recov",
    "SSESpecification",
    "Tags",
    "WarmThroughput",
)


class Prod(NamedTuple):
    """Two stacks of prod in an emulator: the data, and the functions with their logs."""

    aws: AwsEmulator
    shell: Shell
    templates: dict[str, Any]
    folder: Path

    def cdk(self, *arguments: str) -> None:
        """Run CDK on the synthesized app."""
        run_cdk(
            [*arguments, "--app", str(self.folder / "cdk.out")],
            self.aws.environment,
            self.folder / "cdk.log",
        )

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        """The resources of a type in the data's template, by logical id."""
        found = self.templates["evenflow-prod-data"]["Resources"]
        return {name: each for name, each in found.items() if each["Type"] == kind}

    def owned(self, stack: str) -> dict[str, str]:
        """What CloudFormation says that it owns: logical id → physical id."""
        listed = self.aws.client("cloudformation").list_stack_resources(StackName=stack)
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for each in listed["StackResourceSummaries"]
        }

    def drift(self, table: str) -> list[str]:
        """Where a table is not as the template says."""
        (wanted,) = (
            each["Properties"]
            for each in self.resources(_TABLE).values()
            if each["Properties"]["TableName"] == table
        )
        found = differences(wanted, created_properties(self.aws, _TABLE, table))
        return [place for place in found if not place.startswith(_NOT_DESCRIBED)]


@pytest.fixture(scope="module")
def prod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prod]:
    """A prod with its data, which one test after the other changes."""
    folder = tmp_path_factory.mktemp("prod")
    context = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]
    app = cdk.App(context=context, outdir=str(folder / "cdk.out"))
    build_application(app, paging(environment("prod")))
    app.synth()
    templates = {
        name: json.loads((folder / "cdk.out" / f"{name}.template.json").read_text("utf-8"))
        for name in _STACKS
    }
    for name in _STACKS:
        _without_rotation(folder / "cdk.out" / f"{name}.template.json")
    with ministack(folder) as aws:
        shell = Shell(
            folder,
            aws.environment,
            {
                "--app cdk.out": f"--app {folder / 'cdk.out'}",
                "kept.json": str(folder / "kept.json"),
                "--all": " ".join(_STACKS) + " --require-approval never",
                "make ": ": make ",  # it has been synthesized
            },
        )
        prod = Prod(aws, shell, templates, folder)
        prod.cdk("bootstrap", "aws://111111111111/us-east-1")
        prod.cdk("deploy", *_STACKS, "--require-approval", "never")
        _tag_buckets(prod)
        yield prod


def _without_rotation(path: Path) -> None:
    template = json.loads(path.read_text("utf-8"))
    template["Resources"] = {
        name: resource
        for name, resource in template["Resources"].items()
        if resource["Type"] != "AWS::SecretsManager::RotationSchedule"
    }
    path.write_text(json.dumps(template), "utf-8")


def _tag_buckets(prod: Prod) -> None:
    """As CloudFormation does in AWS."""
    owned = prod.owned("evenflow-prod-data")
    for logical_id in prod.resources("AWS::S3::Bucket"):
        tags = {
            "installation": "evenflow",
            "environment": "prod",
            "aws:cloudformation:stack-name": "evenflow-prod-data",
            "aws:cloudformation:logical-id": logical_id,
        }
        tag_set = [{"Key": key, "Value": value} for key, value in tags.items()]
        prod.aws.client("s3").put_bucket_tagging(
            Bucket=owned[logical_id], Tagging={"TagSet": tag_set}
        )


def _tenants(prod: Prod, *arguments: str) -> str:
    return prod.shell.run(
        f".venv/bin/python -m evenflow tenants {' '.join(arguments)}",
        EVENFLOW_STORE="dynamodb",
        EVENFLOW_TENANTS_TABLE="evenflow-prod-tenants",
    )


def _weights_and_keys(prod: Prod) -> list[tuple[float, list[str]]]:
    listed = json.loads(_tenants(prod, "list", "--json"))
    return [(each["weight"], [key["id"] for key in each["keys"]]) for each in listed]


def test_a_tenants_record_comes_back_with_its_keys(prod: Prod) -> None:
    _tenants(prod, "add", "acme", "--weight", "2")
    records = _weights_and_keys(prod)
    prod.shell.run(block_with("restore-tables.md", "restore-table-to-point-in-time"))
    _tenants(prod, "remove", "acme")
    prod.shell.run(
        block_with("restore-tables.md", "tenants restore"),
        EVENFLOW_STORE="dynamodb",
        EVENFLOW_TENANTS_TABLE="evenflow-prod-tenants",
    )
    assert _weights_and_keys(prod) == records
    assert "evenflow-prod-tenants-restored" not in _table_names(prod)


def _table_names(prod: Prod) -> set[str]:
    return set(prod.aws.client("dynamodb").list_tables()["TableNames"])


def test_a_table_is_put_in_the_place_of_the_one_of_its_name(prod: Prod) -> None:
    table = "evenflow-prod-sessions"
    dynamodb = prod.aws.client("dynamodb")
    dynamodb.put_item(TableName=table, Item={"channel": {"S": "kept"}})
    prod.shell.run(
        block_with("restore-tables.md", "restore-table-to-point-in-time").replace(
            "evenflow-prod-tenants", table
        )
    )
    dynamodb.put_item(TableName=table, Item={"channel": {"S": "written afterwards"}})
    prod.shell.run(block_with("restore-tables.md", "create-backup"), TABLE=table)
    assert prod.drift(table), "a restore leaves something out"
    _set_what_is_left_out(prod, table)
    assert prod.drift(table) == []
    assert [item["channel"]["S"] for item in dynamodb.scan(TableName=table)["Items"]] == ["kept"]
    dynamodb.delete_table(TableName=f"{table}-restored")


def _set_what_is_left_out(prod: Prod, table: str) -> None:
    code = block_with("restore-tables.md", "update-continuous-backups")
    assert "DAYS=35\n" in code
    prod.shell.run(code.replace("DAYS=35", "DAYS=1"), TABLE=table)
    tags = prod.aws.client("dynamodb").list_tags_of_resource(
        ResourceArn=f"arn:aws:dynamodb:us-east-1:111111111111:table/{table}"
    )["Tags"]
    own = prod.resources(_TABLE).popitem()[1]["Properties"]["Tags"]
    assert sorted(map(str, own)) == sorted(map(str, tags))


def test_a_deleted_table_comes_back(prod: Prod) -> None:
    table = "evenflow-prod-ledger"
    dynamodb = prod.aws.client("dynamodb")
    message = {"channel": {"S": "c"}, "message_id": {"S": "m"}}
    dynamodb.put_item(TableName=table, Item=message)
    dynamodb.create_backup(TableName=table, BackupName="made at the deletion")
    dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    dynamodb.delete_table(TableName=table)
    prod.shell.run(block_with("restore-tables.md", "list-backups"), TABLE=table)
    _set_what_is_left_out(prod, table)
    assert prod.drift(table) == []
    assert dynamodb.scan(TableName=table)["Items"] == [message]


def test_a_lost_buffer_is_made_as_the_template_has_it(prod: Prod) -> None:
    table = "evenflow-prod-responses"
    dynamodb = prod.aws.client("dynamodb")
    dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    dynamodb.delete_table(TableName=table)
    code = block_with("restore-tables.md", "create-table")
    prod.shell.run(code)
    assert prod.drift(table) == []
    assert dynamodb.describe_table(TableName=table)["Table"]["SSEDescription"]["SSEType"] == "KMS"
    (writes,) = re.findall(r"WriteUnitsPerSecond=(\d+)", code)
    assert int(writes) == environment("prod").data.warm_writes_per_second


_LISTING = ".venv/bin/python -m evenflow.infra.removal prod"


def _destroy(prod: Prod) -> None:
    prod.shell.run(block_with("kept-resources.md", "update-termination-protection"))
    (pattern,) = re.findall(
        r"destroy --app cdk.out '(.*)' --force", (ROOT / "Makefile").read_text()
    )
    prod.cdk("destroy", pattern, "--force")


def test_what_prod_keeps_is_listed_and_adopted(prod: Prod) -> None:
    assert "nothing is left" in prod.shell.run(_LISTING)
    before = {stack: prod.owned(stack) for stack in _STACKS}
    kept = {
        (stack, name): resource["Type"]
        for stack in _STACKS
        for name, resource in prod.templates[stack]["Resources"].items()
        if resource.get("DeletionPolicy") == "RetainExceptOnCreate"
    }
    _destroy(prod)
    listed = [line.split()[0] for line in prod.shell.run(_LISTING).splitlines()]
    assert Counter(kind for kind in listed if kind.startswith("AWS::")) == Counter(kept.values())
    _forget_secrets(prod)
    prod.shell.run(block_with("kept-resources.md", "--mapping"))
    for (stack, name), kind in kept.items():
        if kind != SECRET:
            assert prod.owned(stack)[name] == before[stack][name], name
    assert "nothing is left" in prod.shell.run(_LISTING)
    assert "acme" in _tenants(prod, "list")


def _forget_secrets(prod: Prod) -> None:
    secrets = prod.aws.client("secretsmanager")
    for secret in secrets.list_secrets()["SecretList"]:
        secrets.delete_secret(SecretId=secret["ARN"], ForceDeleteWithoutRecovery=True)


def test_all_of_it_is_taken_away_but_the_vpc_until_its_group_is_gone(prod: Prod) -> None:
    group = _network(prod)
    (bucket, *_) = [
        name for name in prod.owned("evenflow-prod-data").values() if "datarequests" in name
    ]
    prod.aws.client("s3").put_object(Bucket=bucket, Key="requests/1", Body=b"x")
    _destroy(prod)
    stacks = prod.aws.client("cloudformation").describe_stacks()["Stacks"]
    assert {stack["StackName"] for stack in stacks} == {"CDKToolkit", "evenflow-prod-network"}
    assert f"{CLOUDFRONT_GROUP}: deleted" in prod.shell.run(f"{_LISTING} --cloudfront-group")
    assert f"{CLOUDFRONT_GROUP}: not there" in prod.shell.run(f"{_LISTING} --cloudfront-group")
    groups = prod.aws.client("ec2").describe_security_groups()["SecurityGroups"]
    assert group not in {each["GroupId"] for each in groups}

    prod.shell.run(block_with("kept-resources.md", "--delete"))
    assert "nothing is left" in prod.shell.run(_LISTING)
    assert _table_names(prod) == set()
    assert prod.aws.client("secretsmanager").list_secrets()["SecretList"] == []
    buckets = prod.aws.client("s3").list_buckets()["Buckets"]
    assert not [each["Name"] for each in buckets if each["Name"].startswith("evenflow-")]


def _network(prod: Prod) -> str:
    """A VPC in the stack of the network, and in it the group that CloudFront leaves there."""
    vpc = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.9.0.0/16"}}
    cloudformation = prod.aws.client("cloudformation")
    cloudformation.create_stack(
        StackName="evenflow-prod-network", TemplateBody=json.dumps({"Resources": {"Vpc": vpc}})
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="evenflow-prod-network", WaiterConfig={"Delay": 1}
    )
    group: str = prod.aws.client("ec2").create_security_group(
        GroupName=CLOUDFRONT_GROUP,
        Description="CloudFront VPC origins",
        VpcId=prod.owned("evenflow-prod-network")["Vpc"],
    )["GroupId"]
    return group
