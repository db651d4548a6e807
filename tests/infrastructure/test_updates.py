"""Changes to a running environment: each goes through, or is refused with steps that go through."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import ENVIRONMENTS
from evenflow.infra.updates.conflicts import conflicts
from evenflow.infra.updates.stacks import Stack, Stacks
from evenflow.infra.updates.update import IMMUTABLE, UpdateConflict
from tests.infrastructure.conftest import Synthesize, environment_named
from tests.infrastructure.released import (
    immutable_text,
    kinds_in,
    released_stacks,
    stacks_of,
    versions,
)
from tests.infrastructure.synthesis import synthesize

Changes = dict[str, Any]
Running = Callable[[str], Stacks]
"""The stacks of an environment, or of one of the changed ones below."""

_DOMAIN: Changes = {
    "domain_name": "chat.example.com",
    "hosted_zone": {"zone_id": "Z0123456789ABCDEFGHIJ", "name": "example.com"},
}
_SONNET = "anthropic.claude-sonnet-4-5-20250929-v1:0"
# Settings that are changed together cost one synthesis.
_CHANGED: dict[str, tuple[str, Changes]] = {
    "domain": ("staging", {"edge": _DOMAIN}),
    "domain-without-tls": ("staging", {"edge": _DOMAIN | {"tls_to_balancer": False}}),
    "renamed": (
        "staging",
        {
            "owner": "platform",
            "edge": {"edge_key": "k2"},
            "image": "111111111111.dkr.ecr.us-east-1.amazonaws.com/evenflow:2",
            "inference": {
                "bedrock": {"inference_profile": f"us.{_SONNET}", "foundation_model": _SONNET}
            },
        },
    ),
    "three-zones": ("staging", {"network": {"zones": 3, "endpoint_zones": 3}}),
    "bare": ("staging", {"edge": {"firewall": None}, "canary": None}),
    "key-allowed": ("staging", {"data": {"customer_key": "allowed"}}),
    "no-key": ("staging", {"data": {"customer_key": False}}),
    "gpus": ("staging", {"inference": {"kind": "sagemaker"}}),
    "closed": (
        "dev",
        {"open_tenant": False, "network": {"endpoint_zones": 2}, "inference": {"kind": "bedrock"}},
    ),
}


class Row(NamedTuple):
    """A change of a running environment.

    Args:
        steps: the environments that are deployed, one after the other.
        refused: the message if it is tried in one step. Empty: it is one step.
        notes: messages about the steps, which go through.
    """

    change: str
    steps: tuple[str, ...]
    refused: str = ""
    notes: tuple[str, ...] = ()


_KEY_NOTE = "must have been in the secret for five minutes"
_ROWS = (
    Row("add a domain", ("staging", "domain")),
    Row(
        "remove it",
        ("domain", "domain-without-tls", "staging"),
        "first deploy edge.tls_to_balancer=False",
    ),
    Row(
        "another owner and tag, edge key, image and Bedrock profile",
        ("staging", "renamed"),
        notes=(_KEY_NOTE,),
    ),
    Row("and back", ("renamed", "staging"), notes=(_KEY_NOTE,)),
    Row("zones 2 to 3", ("staging", "three-zones")),
    Row("zones 3 to 2", ("three-zones", "staging")),
    Row(
        "firewall and canary off",
        ("staging", "bare"),
        notes=(
            "delete-stack --stack-name evenflow-staging-us-east-1-firewall --region us-east-1",
            "delete-stack --stack-name evenflow-staging-canary --region us-east-1",
        ),
    ),
    Row("firewall and canary on", ("bare", "staging")),
    Row(
        "customer key on",
        ("no-key", "key-allowed", "staging"),
        'first deploy data.customer_key="allowed"',
    ),
    Row("customer key not used any more", ("staging", "key-allowed")),
    Row("workers on", ("staging", "staging-workers")),
    Row("workers off", ("staging-workers", "staging")),
    Row("traces on", ("staging-workers", "staging-workers-traced")),
    Row("traces off", ("staging-workers-traced", "staging-workers")),
    Row("Bedrock to own GPUs", ("staging", "gpus")),
    Row(
        "own GPUs to Bedrock",
        ("gpus", "staging"),
        notes=("delete-stack --stack-name evenflow-staging-sagemaker --region us-east-1",),
    ),
    Row("sessions only with keys, endpoints, and Bedrock in dev", ("dev", "closed")),
    Row("and back", ("closed", "dev")),
)
_REFUSED = [row for row in _ROWS if row.refused]


@pytest.fixture(scope="module")
def running(synthesized: Synthesize, tmp_path_factory: pytest.TempPathFactory) -> Running:
    @cache
    def stacks(name: str) -> Stacks:
        if name not in _CHANGED:
            return stacks_of(synthesized(name))
        base, changes = _CHANGED[name]
        settings = _changed(environment_named(base), changes)
        return stacks_of(synthesize(settings, tmp_path_factory.mktemp(name)))

    return stacks


def _changed(settings: EnvironmentSettings, changes: Changes) -> EnvironmentSettings:
    def merged(old: Changes, new: Changes) -> Changes:
        return old | {
            name: merged(old[name], value)
            if isinstance(value, dict) and isinstance(old[name], dict)
            else value
            for name, value in new.items()
        }

    return EnvironmentSettings.model_validate(merged(settings.model_dump(), changes))


def _blocking(found: list[UpdateConflict]) -> list[str]:
    return [str(conflict) for conflict in found if conflict.blocks]


@pytest.mark.parametrize("row", _ROWS, ids=[row.change for row in _ROWS])
def test_each_step_of_a_change_goes_through(running: Running, row: Row) -> None:
    notes = []
    for old, new in pairwise(row.steps):
        found = conflicts(running(old), running(new))
        assert _blocking(found) == [], f"{old} to {new}"
        notes += [str(conflict) for conflict in found]
    assert len(notes) == len(row.notes), notes
    for note, text in zip(notes, row.notes, strict=True):
        assert text in note


@pytest.mark.parametrize("row", _REFUSED, ids=[row.change for row in _REFUSED])
def test_what_takes_two_steps_is_refused_in_one(running: Running, row: Row) -> None:
    refused = _blocking(conflicts(running(row.steps[0]), running(row.steps[-1])))
    assert any(row.refused in text for text in refused), refused


def test_a_key_that_has_encrypted_data_is_not_taken_away(running: Running) -> None:
    for before in ("staging", "key-allowed"):
        (refused,) = _blocking(conflicts(running(before), running("no-key")))
        assert "AWS::KMS::Key" in refused
        assert 'data.customer_key="allowed"' in refused


def test_what_other_stacks_use_of_the_vpc_depends_on_no_setting(running: Running) -> None:
    """It is deployed first, while the others are still those of before. Only the policies of its
    gateway endpoints differ, and they are changed in place.
    """
    for names in (("staging", "three-zones", "gpus", "domain", "staging-workers"),
                  ("dev", "closed")):  # fmt: skip
        first, *variants = (running(name) for name in names)
        network = next(name for name in first if name.endswith("-network"))
        for variant in variants:
            assert _without_policies(variant[network]) == _without_policies(first[network])


def _without_policies(stack: Stack) -> dict[str, Any]:
    template = copy.deepcopy(dict(stack.template))
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::EC2::VPCEndpoint":
            resource["Properties"].pop("PolicyDocument", None)
    return template


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_last_release_can_be_updated_to_this(running: Running, name: str) -> None:
    last = versions()[-1]
    assert _blocking(conflicts(released_stacks(last, name), running(name))) == []


def test_the_table_of_immutable_properties_is_that_of_the_schemas(running: Running) -> None:
    """`UPDATE_SNAPSHOTS=1` rewrites it."""
    names = ("staging-workers-traced", "prod", "gpus", "domain", "closed")
    text = immutable_text(kinds_in(*(running(name) for name in names)))
    if os.environ.get("UPDATE_SNAPSHOTS"):
        IMMUTABLE.write_text(text, "utf-8")
    assert IMMUTABLE.read_text("utf-8") == text


# -- each rule finds its fault ---------------------------------------------------------------------


def _with(stacks: Stacks, name: str, template: dict[str, Any] | None = None, **more: Any) -> Stacks:
    """The stacks, one of them with another template or tags. `name` is the end of its name."""
    (found,) = (stack for stack in stacks.values() if stack.name.endswith(name))
    changed = Stack(found.name, found.region, template or found.template, **more)
    return {**stacks, found.name: changed}


def _template(stacks: Stacks, name: str) -> dict[str, Any]:
    """A copy of one stack's template."""
    (found,) = (stack.template for stack in stacks.values() if stack.name.endswith(name))
    return copy.deepcopy(dict(found))


def _first(template: Mapping[str, Any], kind: str) -> tuple[str, dict[str, Any]]:
    return next(
        (logical_id, resource)
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == kind
    )


def _tag_the_origin(edge: dict[str, Any]) -> None:
    origin = _first(edge, "AWS::CloudFront::VpcOrigin")[1]
    origin["Properties"]["Tags"] = [{"Key": "owner", "Value": "platform"}]


def _change_the_origins_protocol(edge: dict[str, Any]) -> None:
    origin = _first(edge, "AWS::CloudFront::VpcOrigin")[1]
    origin["Properties"]["VpcOriginEndpointConfig"]["OriginProtocolPolicy"] = "https-only"


def _generate_another_key(data: dict[str, Any]) -> None:
    secret = _first(data, "AWS::SecretsManager::Secret")[1]
    secret["Properties"]["GenerateSecretString"]["GenerateStringKey"] = "k2"


def _remove_a_table(data: dict[str, Any]) -> None:
    del data["Resources"][_first(data, "AWS::DynamoDB::Table")[0]]


def _rename_a_table(data: dict[str, Any]) -> None:
    _first(data, "AWS::DynamoDB::Table")[1]["Properties"]["TableName"] = "another"


def _remove_an_export(data: dict[str, Any]) -> None:
    del data["Outputs"][next(name for name in data["Outputs"] if "SigningKeys" in name)]


def _describe_the_handlers_group(network: dict[str, Any]) -> None:
    _, group = next(
        (logical_id, resource)
        for logical_id, resource in network["Resources"].items()
        if resource["Type"] == "AWS::EC2::SecurityGroup" and "Handler" in logical_id
    )
    group["Properties"]["GroupDescription"] = "another"


def _move_a_subnet(network: dict[str, Any]) -> None:
    subnets = [r["Properties"] for r in network["Resources"].values()
               if r["Type"] == "AWS::EC2::Subnet"]  # fmt: skip
    subnets[2]["CidrBlock"] = subnets[3]["CidrBlock"]


def _replace_a_named_service(service: dict[str, Any]) -> None:
    _first(service, "AWS::ECS::Service")[1]["Properties"]["SchedulingStrategy"] = "DAEMON"


def _rename_a_construct(service: dict[str, Any]) -> None:
    resources = service["Resources"]
    resources["Another"] = resources.pop(_first(service, "AWS::Logs::LogGroup")[0])


def _open_a_second_listener(service: dict[str, Any]) -> None:
    resources = service["Resources"]
    resources["Another"] = _first(service, "AWS::ElasticLoadBalancingV2::Listener")[1]


def _close_the_listener(service: dict[str, Any]) -> None:
    del service["Resources"][_first(service, "AWS::ElasticLoadBalancingV2::Listener")[0]]


def _close_the_port(network: dict[str, Any]) -> None:
    for logical_id, resource in list(network["Resources"].items()):
        if resource.get("Properties", {}).get("SourcePrefixListId"):
            del network["Resources"][logical_id]


@pytest.mark.parametrize(
    ("fault", "stack", "message"),
    [
        (_tag_the_origin, "-edge", "would be changed while the distribution uses it"),
        (_change_the_origins_protocol, "-edge", "would be changed while the distribution uses it"),
        (_generate_another_key, "-data", "would get a new random value"),
        (_remove_a_table, "-data", "AWS::DynamoDB::Table evenflow-staging-"),
        (_rename_a_table, "-data", "AWS::DynamoDB::Table evenflow-staging-"),
        (_remove_an_export, "-data", "would go, and is imported by evenflow-staging-service"),
        (
            _describe_the_handlers_group,
            "-network",
            "would be replaced, and is imported by evenflow-staging-service",
        ),
        (_open_a_second_listener, "-service", "has its name or place"),
        (_move_a_subnet, "-network", "which is still there"),
        (_replace_a_named_service, "-service", "AWS::ECS::Service evenflow-staging-handler"),
        (_rename_a_construct, "-service", "AWS::Logs::LogGroup /evenflow/staging/handler"),
        (_close_the_listener, "-service", "would not listen on port 80 any more"),
        (_close_the_port, "-network", "would not listen on port 80 any more"),
    ],
)
def test_a_fault_is_found(
    running: Running, fault: Callable[[dict[str, Any]], None], stack: str, message: str
) -> None:
    old = running("staging")
    template = _template(old, stack)
    fault(template)
    refused = _blocking(conflicts(old, _with(old, stack, template)))
    assert any(message in text for text in refused), refused
    assert len(refused) <= 2, "it says no more than what is wrong"
    assert all("To do: " in text for text in refused)


def test_a_tag_of_the_stack_is_one_of_the_origin(running: Running) -> None:
    old = running("staging")
    (refused,) = _blocking(conflicts(old, _with(old, "-edge", tags={"owner": "platform"})))
    assert "which CloudFront refuses" in refused
    assert not _blocking(conflicts(old, _with(old, "-service", tags={"owner": "platform"})))


def test_another_domain_needs_http_in_between(running: Running) -> None:
    old = running("domain")
    text = json.dumps(_template(old, "-service")).replace("chat.example.com", "talk.example.com")
    (refused,) = _blocking(conflicts(old, _with(old, "-service", json.loads(text))))
    assert "a certificate that is not for chat.example.com" in refused
    without_tls = running("domain-without-tls")
    assert not _blocking(conflicts(without_tls, _with(old, "-service", json.loads(text))))


def test_warm_throughput_is_not_lowered(running: Running) -> None:
    old = running("prod")
    template = _template(old, "-data")
    for resource in template["Resources"].values():
        if warm := resource.get("Properties", {}).get("WarmThroughput"):
            warm["WriteUnitsPerSecond"] = 5_000
    (refused,) = _blocking(conflicts(old, _with(old, "-data", template)))
    assert "set data.warm_writes_per_second to 7000 or more" in refused


def test_what_is_retained_keeps_its_name(running: Running) -> None:
    old = running("prod")
    template = _template(old, "-service")
    del template["Resources"][_first(template, "AWS::Logs::LogGroup")[0]]
    (note,) = conflicts(old, _with(old, "-service", template))
    assert not note.blocks
    assert "/evenflow/prod/handler" in note.found
    assert "--import-existing-resources" in note.to_do


def test_a_first_deployment_has_its_first_edge_key(running: Running) -> None:
    assert conflicts({}, running("staging")) == []
    (refused,) = _blocking(conflicts({}, running("renamed")))
    assert "would not have 'k2'" in refused


def test_a_protected_stack_that_is_left_says_how_it_is_deleted(running: Running) -> None:
    new = running("bare")
    old = _with(running("staging"), "-firewall", is_protected=True)
    steps = [c.to_do for c in conflicts(old, new) if c.stack.endswith("-firewall")]
    assert ["--no-enable-termination-protection" in step for step in steps] == [True]
