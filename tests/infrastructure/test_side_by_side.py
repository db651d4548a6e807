"""Two installations and two regions live side by side in one account."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.regions import REGIONS, UnknownRegionError, region_named
from evenflow.infra.settings.setting_paths import WrongSettingError
from tests.infrastructure.conftest import Synthesize
from tests.infrastructure.synthesis import Synthesis

# What has one name in an account, whatever the region. Of others each region has its own.
_GLOBAL = (
    "AWS::CloudFront::",
    "AWS::CloudWatch::Dashboard",
    "AWS::IAM::",
    "AWS::S3::",
    "AWS::WAFv2::",  # those of CloudFront
)
# Named within what they belong to.
_WITHIN_ANOTHER = ("AWS::ApiGatewayV2::Stage", "AWS::ApplicationAutoScaling::", "AWS::IAM::Policy")
# staging has what CloudFront takes from us-east-1 in every region.
_INSTALLATIONS = (
    "staging",
    "staging/eu-west-1",
    "staging/us-east-1/acme",
    "staging/eu-west-1/acme",
)


def _names(kind: str, properties: dict[str, Any]) -> Iterator[str]:
    """The literal names in a resource that are its own, not those of what it refers to."""
    short = kind.rsplit("::", 1)[-1]
    own = {"Name", f"{short}Name", "AlarmName", "Family", "InferenceProfileName"}
    for key, value in properties.items():
        if key in own and isinstance(value, str):
            yield value
        elif key.endswith("Config") and isinstance(value, dict):
            yield from _names(kind, value)


def _taken(synthesis: Synthesis) -> Iterator[tuple[str, str, str]]:
    """(scope, kind, name) of all that only one resource can have."""
    manifest = json.loads((synthesis.folder / "manifest.json").read_text("utf-8"))
    for stack, artifact in manifest["artifacts"].items():
        if artifact["type"] != "aws:cloudformation:stack":
            continue
        file = synthesis.folder / artifact["properties"]["templateFile"]
        template = json.loads(file.read_text("utf-8"))
        region = artifact["environment"].rsplit("/", 1)[-1]
        yield region, "stack", stack
        for resource in template["Resources"].values():
            kind = resource["Type"]
            if kind.startswith(_WITHIN_ANOTHER):
                continue
            scope = "global" if kind.startswith(_GLOBAL) else region
            for name in _names(kind, resource.get("Properties", {})):
                yield scope, kind, name
        for output in template.get("Outputs", {}).values():
            if isinstance(name := output.get("Export", {}).get("Name"), str):
                yield region, "export", name


def test_no_name_is_taken_twice(synthesized: Synthesize) -> None:
    counted = Counter(taken for name in _INSTALLATIONS for taken in set(_taken(synthesized(name))))
    assert not [taken for taken, count in counted.items() if count > 1]
    kinds = {kind for _, kind, _ in counted}
    assert kinds >= {
        "AWS::CloudFront::CachePolicy",
        "AWS::CloudFront::Function",
        "AWS::CloudFront::OriginAccessControl",
        "AWS::CloudFront::ResponseHeadersPolicy",
        "AWS::CloudFront::VpcOrigin",
        "AWS::CloudWatch::Alarm",
        "AWS::CloudWatch::Dashboard",
        "AWS::DynamoDB::Table",
        "AWS::KMS::Alias",
        "AWS::Lambda::Function",
        "AWS::Logs::LogGroup",
        "AWS::SecretsManager::Secret",
        "AWS::WAFv2::WebACL",
        "export",
    }


def test_metrics_of_installations_are_apart(synthesized: Synthesize) -> None:
    values = {
        variable["Value"]
        for name in ("staging", "staging/us-east-1/acme")
        for container in synthesized(name).only("AWS::ECS::TaskDefinition")["ContainerDefinitions"]
        for variable in container["Environment"]
        if variable["Name"] == "EVENFLOW_METRICS_ENVIRONMENT"
    }
    assert values == {"evenflow-staging", "acme-staging"}


def test_a_region_that_is_not_in_the_table_is_told_what_it_needs() -> None:
    expected = r"'sa-east-1' is not in infra/settings/regions.py.*VPC or"
    with pytest.raises(UnknownRegionError, match=expected):
        region_named("sa-east-1")
    with pytest.raises(UnknownRegionError, match="aws bedrock get-inference-profile"):
        environment("dev", region="moon")


def test_an_installation_has_a_name_that_begins_names() -> None:
    with pytest.raises(WrongSettingError, match=r"installation = 'Acme GmbH'.*match pattern"):
        environment("dev", installation="Acme GmbH")
    with pytest.raises(WrongSettingError, match="not have more than 36 characters"):
        environment("dev", installation="a" * 40)


@pytest.mark.parametrize("region", REGIONS)
def test_every_environment_fits_into_every_region(region: str) -> None:
    for name in ("dev", "staging", "prod"):
        settings = environment(name, region=region)
        geography = settings.region.geography
        assert settings.inference.bedrock.inference_profile.startswith(f"{geography}.")
        assert region in settings.inference.bedrock.regions


def test_no_region_has_the_prefix_list_of_another() -> None:
    for field in ("cloudfront", "s3", "dynamodb"):
        assert len({getattr(region, field) for region in REGIONS.values()}) == len(REGIONS)
