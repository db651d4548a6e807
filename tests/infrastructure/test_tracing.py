"""Traces in AWS: a collector in each task, X-Ray, and nothing of that where they are not set."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evenflow.fargate_handler.settings.tracing_settings import traces_wanted
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.conftest import Synthesize
from tests.infrastructure.synthesis import Synthesis


@pytest.fixture(scope="module")
def traced(synthesized: Synthesize) -> Synthesis:
    """staging with workers and traces."""
    return synthesized("staging-workers-traced")


def _containers(synthesis: Synthesis, role: str = "handler") -> dict[str, dict[str, Any]]:
    """Those of a task, by name."""
    (task,) = (
        task["Properties"]
        for task in synthesis.of_type("AWS::ECS::TaskDefinition", "service").values()
        if task["Properties"]["Family"].endswith(f"-{role}")
    )
    return {container["Name"]: container for container in task["ContainerDefinitions"]}


def _variables(container: dict[str, Any]) -> dict[str, str]:
    return {variable["Name"]: variable["Value"] for variable in container["Environment"]}


@pytest.mark.parametrize("role", ["handler", "worker"])
def test_a_collector_takes_what_is_exported_beside_it(traced: Synthesis, role: str) -> None:
    containers = _containers(traced, role)
    collector, told = containers["collector"], _variables(containers[role])
    assert traces_wanted({name: value for name, value in told.items() if isinstance(value, str)})
    assert (told["OTEL_TRACES_SAMPLER"], told["OTEL_TRACES_SAMPLER_ARG"]) == (
        "traceidratio",
        "0.25",
    )
    read = json.loads(_variables(collector)["AOT_CONFIG_CONTENT"])
    listens = read["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    assert told["OTEL_EXPORTER_OTLP_ENDPOINT"] == f"http://{listens}"
    (pipeline,) = read["service"]["pipelines"].values()
    for part in ("receivers", "processors", "exporters"):
        assert sorted(pipeline[part]) == sorted(read[part])
    assert read["exporters"]["awsxray"]["region"] == traced.settings.region.name


def test_the_collector_has_bounds_and_no_answer_ends_with_it(traced: Synthesis) -> None:
    collector = _containers(traced)["collector"]
    assert not collector["Essential"]
    assert (collector["Cpu"], collector["Memory"]) == (64, 128)
    assert collector["ReadonlyRootFilesystem"]
    assert collector["LinuxParameters"]["Capabilities"]["Drop"] == ["ALL"]
    assert f"@sha256:{'0' * 64}" in json.dumps(collector["Image"])


def test_the_task_may_write_to_x_ray_and_reaches_it(traced: Synthesis) -> None:
    policies = [
        json.dumps(policy)
        for name, policy in traced.of_type("AWS::IAM::Policy", "service").items()
        if "TaskRole" in name
    ]
    for action in ("PutTraceSegments", "PutTelemetryRecords"):
        assert sum(f'"xray:{action}"' in policy for policy in policies) == 2, "of each role"
    endpoints = traced.of_type("AWS::EC2::VPCEndpoint", "service").values()
    assert any("xray" in json.dumps(endpoint) for endpoint in endpoints)


def test_cfn_lint_finds_nothing(traced: Synthesis) -> None:
    found = findings(traced.templates["service"])
    # W3005: CDK writes dependencies down that a reference would give too.
    assert not [match for match in found if match.rule.id != "W3005"]


def test_where_traces_are_not_set_there_is_nothing_of_them(dev: Synthesis) -> None:
    assert set(_containers(dev)) == {"handler"}
    for text in ("xray:Put", ".xray", "OTEL_"):
        assert text not in json.dumps([dev.templates["network"], dev.templates["service"]])


def test_limits_leave_the_collector_its_memory(traced: Synthesis) -> None:
    data = traced.settings.model_dump()
    data["tracing"]["collector_memory_mib"] = data["handler"]["memory_mib"]
    with pytest.raises(ValueError, match="a handler has 0: lower"):
        EnvironmentSettings.model_validate(data)


@pytest.mark.parametrize(
    "image",
    [
        "public.ecr.aws/aws-observability/aws-otel-collector:latest",
        "111111111111.dkr.ecr.us-east-1.amazonaws.com/adot:latest",
    ],
)
def test_a_collector_is_named_by_its_digest_in_a_repository_that_tasks_reach(
    traced: Synthesis, image: str
) -> None:
    data = traced.settings.model_dump()
    data["tracing"]["collector_image"] = image
    with pytest.raises(ValueError, match="collector_image"):
        EnvironmentSettings.model_validate(data)
