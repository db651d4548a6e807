"""The code of docs/aws.md does what the page says."""

from __future__ import annotations

import functools
import json
import re
import shlex
import subprocess
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_route53 as route53
from botocore import xform_name
from botocore.session import Session

from evenflow.infra.settings.context import settings_from_context
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.observability_settings import check_somebody_is_paged
from evenflow.infra.settings.setting_paths import paths
from tests.e2e.readme_snippets import blocks, commands, page_text
from tests.infrastructure.synthesis import ROOT, Synthesis

_PAGE = "docs/aws.md"
_IMAGE = "111111111111.dkr.ecr.us-east-1.amazonaws.com/evenflow@sha256:" + "0" * 64
_COLLECTOR = "<account>.dkr.ecr.<region>.amazonaws.com/<repository>@sha256:<digest>"
_OF_ALL_STACKS = ("deploy", "destroy")
# Options of every command of AWS.
_GLOBAL_OPTIONS = {"--region", "--output", "--query", "--profile"}
_session = functools.cache(Session)


def _commands(program: str) -> list[str]:
    return [command for command in commands(_PAGE) if command.startswith(f"{program} ")]


def _context(words: list[str]) -> dict[str, object]:
    """The context that `-c` sets."""
    pairs = (words[at + 1] for at, word in enumerate(words) if word == "-c")
    return {path: value for path, _, value in (pair.partition("=") for pair in pairs)}


@pytest.mark.parametrize("command", _commands("cdk"))
def test_cdk_takes_each_command_with_its_settings(command: str) -> None:
    words = shlex.split(command.replace(_COLLECTOR, _IMAGE))
    assert words[1] in {"synth", "diff", "bootstrap", *_OF_ALL_STACKS}
    assert ("--all" in words) == (words[1] in _OF_ALL_STACKS)
    settings = settings_from_context(_context(words))
    check_somebody_is_paged(settings.name, settings.alarms)


def test_make_takes_settings_too() -> None:
    (command,) = (command for command in _commands("make") if "SET=" in command)
    planned = subprocess.run(
        [*shlex.split(command), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    (synthesis,) = (line for line in planned.splitlines() if "/cdk synth" in line)
    context = _context(shlex.split(synthesis))
    assert context == {
        "env": "prod",
        "alarms.page_email": "on-call@example.com",
        "owner": "chat-team",
    }


def test_a_file_of_settings_is_taken() -> None:
    (file,) = blocks("json", _PAGE)
    settings = settings_from_context({**json.loads(file), "env": "prod"})
    assert settings.edge.hosted_zone is not None
    assert (settings.owner, settings.edge.hosted_zone.name) == ("chat-team", "example.com")
    assert settings_from_context(json.loads(file)).edge.hosted_zone is None


def test_every_setting_of_the_table_exists() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| ([^|]+) \|$", page_text(_PAGE).split("## Checked")[0], re.MULTILINE
    )
    names = {
        name.partition("=")[0]
        for row in rows[1:]
        for name in re.findall(r"`([a-z_.]+(?:=[^`]+)?)`", row)
    }
    assert len(names) > 12
    kinds = {"demo", "bedrock", "sagemaker"}
    assert names - kinds - set(paths(EnvironmentSettings)) == set()


@pytest.mark.parametrize("command", _commands("aws"))
def test_aws_has_each_command_with_its_options(command: str) -> None:
    _, service, operation, *words = shlex.split(command)
    model = _session().get_service_model(service)
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    shape = model.operation_model(operations[operation]).input_shape
    assert shape is not None
    accepted = {f"--{xform_name(name, '-')}" for name in shape.members}
    options = {word for word in words if word.startswith("--")} - _GLOBAL_OPTIONS
    assert options <= accepted
    assert {f"--{xform_name(name, '-')}" for name in shape.required_members} <= options


def test_the_alarm_that_is_tried_pages_by_the_topic_that_is_listed(dev: Synthesis) -> None:
    words = [word for command in _commands("aws") for word in shlex.split(command)]
    (alarm,) = {words[at + 1] for at, word in enumerate(words) if word == "--alarm-name"}
    (topic,) = {words[at + 1] for at, word in enumerate(words) if word == "--topic-arn"}
    topics = {
        properties["Properties"]["TopicName"]: name
        for name, properties in dev.of_type("AWS::SNS::Topic").items()
    }
    (actions,) = (
        resource["Properties"]["AlarmActions"]
        for resource in dev.of_type("AWS::CloudWatch::Alarm").values()
        if resource["Properties"].get("AlarmName") == alarm
    )
    assert {"Ref": topics[topic.rpartition(":")[2]]} in actions


def _run(begins: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the block that begins with `begins`. Returns the names that it defines."""
    (code,) = (code for code in blocks("python", _PAGE) if code.startswith(begins))
    exec(code.replace('"…"', repr(_IMAGE)), names)  # noqa: S102
    return names


def test_the_service_is_put_into_an_app() -> None:
    app = cdk.App()
    network = cdk.Stack(app, "Network", env=cdk.Environment(region="us-east-1"))
    vpc = ec2.Vpc(network, "Vpc")
    made = _run(
        "from evenflow.cdk",
        {
            "app": app,
            "cdk": cdk,
            "vpc": vpc,
            "cluster": ecs.Cluster(network, "Cluster", vpc=vpc),
            "zone": route53.PublicHostedZone(network, "Zone", zone_name="chat.example.com"),
        },
    )
    assert made["service"].url
    assert app.synth().get_stack_by_name("Shop").template["Resources"]
