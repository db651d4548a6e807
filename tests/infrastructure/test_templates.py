"""What holds for every template."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from evenflow.infra.settings.environments import ENVIRONMENTS
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.conftest import Synthesize
from tests.infrastructure.snapshots import snapshot_text
from tests.infrastructure.synthesis import Synthesis

_WITH_WORKERS, _CHANGED_BY_WORKERS = "staging-workers", ("observability", "service")
_SNAPSHOTS = Path(__file__).parent / "snapshots"
# Made by CDK around a function of its own, which logs to a group that CloudWatch makes.
_CDKS_OWN = "CustomS3AutoDeleteObjects"
_LOAD_BALANCING = (
    "127311923021"  # AWS's own, from which load balancers of us-east-1 write their logs
)
_PUBLIC = ("AWS::EC2::EIP", "AWS::EC2::NatGateway", "AWS::Lambda::Url", "AWS::ApiGateway::RestApi")


@pytest.fixture(scope="session", params=[*ENVIRONMENTS, _WITH_WORKERS])
def synthesis(request: pytest.FixtureRequest, synthesized: Synthesize) -> Synthesis:
    """Each environment in turn, and one with workers."""
    return synthesized(request.param)


def _stacks_of_its_own(synthesis: Synthesis) -> Iterable[str]:
    """With workers the other stacks are those without: test_workers.py says so."""
    return synthesis.templates if synthesis.settings.workers is None else _CHANGED_BY_WORKERS


def test_templates_are_as_reviewed(synthesis: Synthesis) -> None:
    """`UPDATE_SNAPSHOTS=1` writes them anew; the difference is for the reviewer."""
    folder = _SNAPSHOTS / (
        synthesis.settings.name if synthesis.settings.workers is None else _WITH_WORKERS
    )
    now = {
        f"{stack}.json": snapshot_text(synthesis.templates[stack])
        for stack in _stacks_of_its_own(synthesis)
    }
    if os.environ.get("UPDATE_SNAPSHOTS"):
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob("*.json"):
            stale.unlink()
        for name, text in now.items():
            (folder / name).write_text(text, "utf-8")
    kept = {path.name: path.read_text("utf-8") for path in folder.glob("*.json")}
    assert set(now) == set(kept)
    changed = [name for name, text in now.items() if kept[name] != text]
    assert not changed, (
        f"{changed} differ from {folder}: look at them, then UPDATE_SNAPSHOTS=1 pytest "
        "tests/infrastructure"
    )


def test_cfn_lint_finds_nothing(synthesis: Synthesis) -> None:
    for stack in _stacks_of_its_own(synthesis):
        found = findings(synthesis.templates[stack])
        # W3005: CDK writes dependencies down that a reference would give too.
        assert not [match for match in found if match.rule.id != "W3005"], stack


def test_cdk_nag_and_cdk_find_nothing(synthesis: Synthesis) -> None:
    for plugin in synthesis.validation_report["pluginReports"]:
        assert not plugin["violations"], plugin["pluginName"]


def test_every_acknowledgment_is_needed_and_says_why(synthesis: Synthesis) -> None:
    suppressed = [
        v for p in synthesis.validation_report["pluginReports"] for v in p["suppressedViolations"]
    ]
    assert suppressed
    for violation in suppressed:
        assert len(violation["reason"]) > 10, violation["acknowledgedId"]
    needed = {
        (violation["acknowledgedAt"], violation["acknowledgedId"]) for violation in suppressed
    }
    acknowledged = _acknowledged(synthesis)
    assert acknowledged
    assert acknowledged <= needed


def _acknowledged(synthesis: Synthesis) -> set[tuple[str, str]]:
    """(construct, finding) of our acknowledgments; CDK's constructs have some of their own, for
    other checks.
    """
    return {
        (construct.lstrip("/"), finding)
        for path in synthesis.folder.glob("*.metadata.json")
        for construct, entries in json.loads(path.read_text("utf-8")).items()
        for entry in entries
        if "acknowledged" in entry["type"].lower()
        for finding in entry["data"]
        if finding.startswith("AwsSolutions::")
    }


def test_everything_is_tagged(synthesis: Synthesis) -> None:
    tagged = 0
    for template in synthesis.templates.values():
        for name, resource in template["Resources"].items():
            tags = resource.get("Properties", {}).get("Tags")
            if tags is None:
                continue
            given = tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
            assert (
                given.items()
                >= {
                    "project": "evenflow",
                    "environment": synthesis.settings.name,
                    "owner": synthesis.settings.owner,
                    "managed-by": "cdk",
                }.items()
            ), name
            tagged += 1
    assert tagged > 40


def test_an_organizations_tags_are_on_everything_and_replace_ours(choosy: Synthesis) -> None:
    tag_sets = [
        tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
        for template in choosy.templates.values()
        for resource in template["Resources"].values()
        if (tags := resource.get("Properties", {}).get("Tags")) is not None
    ]
    assert len(tag_sets) > 40
    for tags in tag_sets:
        assert (tags["CostCenter"], tags["Owner"]) == ("4711", "chat team")
        # IAM refuses two tags with names that differ only in case.
        assert len({key.lower() for key in tags}) == len(tags)


def test_every_role_has_the_boundary_of_the_organization(choosy: Synthesis, dev: Synthesis) -> None:
    roles = choosy.of_type("AWS::IAM::Role")
    assert any(name.startswith(_CDKS_OWN) for name in roles), "those of CDK's own functions, too"
    boundary = ":policy/boundaries/applications"
    for name, role in roles.items():
        _, parts = role["Properties"]["PermissionsBoundary"]["Fn::Join"]
        assert parts[-1] == boundary, name
    for role in dev.of_type("AWS::IAM::Role").values():
        assert "PermissionsBoundary" not in role["Properties"]


def test_logs_are_forgotten_when_the_settings_say_so(synthesis: Synthesis) -> None:
    groups = synthesis.of_type("AWS::Logs::LogGroup")
    assert len(groups) >= 6
    for name, group in groups.items():
        assert group["Properties"]["RetentionInDays"] == synthesis.settings.log_retention_days, name


def test_no_function_logs_where_nothing_is_forgotten(synthesis: Synthesis) -> None:
    for name, function in synthesis.of_type("AWS::Lambda::Function").items():
        if not name.startswith(_CDKS_OWN):
            assert "LogGroup" in function["Properties"]["LoggingConfig"], name
    for task in synthesis.of_type("AWS::ECS::TaskDefinition").values():
        for container in task["Properties"]["ContainerDefinitions"]:
            assert "Ref" in container["LogConfiguration"]["Options"]["awslogs-group"]


def test_only_cloudfront_and_the_http_api_have_a_public_address(synthesis: Synthesis) -> None:
    for kind in _PUBLIC:
        assert not synthesis.of_type(kind), kind
    for balancer in synthesis.of_type("AWS::ElasticLoadBalancingV2::LoadBalancer").values():
        assert balancer["Properties"]["Scheme"] == "internal"
    for bucket in synthesis.of_type("AWS::S3::Bucket").values():
        assert "WebsiteConfiguration" not in bucket["Properties"]
    assert len(synthesis.of_type("AWS::CloudFront::Distribution")) == 1
    assert len(synthesis.of_type("AWS::ApiGatewayV2::Api")) == 1


def test_no_template_names_an_account(synthesis: Synthesis) -> None:
    for name, template in synthesis.templates.items():
        accounts = set(
            re.findall(r"(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])", snapshot_text(template))
        )
        assert accounts <= {_LOAD_BALANCING}, name


def test_production_cannot_be_deleted_by_a_mistake(synthesis: Synthesis) -> None:
    manifest = json.loads((synthesis.folder / "manifest.json").read_text("utf-8"))
    stacks = {
        name: artifact["properties"].get("terminationProtection", False)
        for name, artifact in manifest["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    ours = {
        name: kept
        for name, kept in stacks.items()
        if not name.endswith(("observability", "canary"))
    }
    assert set(ours.values()) == {synthesis.settings.data.keep}


def test_a_failed_first_deployment_leaves_nothing_in_the_way_of_the_next(
    synthesis: Synthesis,
) -> None:
    """With `Retain` a resource stays when its creation is rolled back, and its name with it."""
    policies = {
        resource.get("DeletionPolicy")
        for t in synthesis.templates.values()
        for resource in t["Resources"].values()
    }
    kept = {"RetainExceptOnCreate"} if synthesis.settings.data.keep else set()
    assert policies == {None, "Delete"} | kept
