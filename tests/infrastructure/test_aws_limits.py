"""Nothing in any template that AWS only refuses while it deploys."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import aws_cdk as cdk
import pytest

from evenflow.infra.evenflow_service import EvenflowService, service_settings
from evenflow.infra.settings.observability_settings import AlarmSettings
from evenflow.infra.settings.stack_settings import WorkerServiceSettings
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.conftest import Synthesize
from tests.infrastructure.limits import (
    access,
    api_models,
    compute,
    edge,
    names,
    network,
    stacks,
    watching,
)
from tests.infrastructure.limits.deployment import Deployment, deployment_in
from tests.infrastructure.limits.limit import Limit

_LIMITS: tuple[Limit, ...] = (
    *api_models.LIMITS,
    *network.LIMITS,
    *access.LIMITS,
    *compute.LIMITS,
    *edge.LIMITS,
    *watching.LIMITS,
    *names.LIMITS,
    *stacks.LIMITS,
)
_DEPLOYMENTS = (
    *("dev", "staging", "prod", "prod-zone/eu-west-1/acme", "staging-workers", "staging-traced"),
    *("choosy", "dev-key", "prod-nokey"),
)
# CloudFormation's schemas have patterns, lengths and choices, too, and cfn-lint compares them.
# test_templates.py does that with the others.
_COMPARED_WITH_SCHEMAS = ("prod-zone/eu-west-1/acme", "staging-traced", "choosy")
# W3005, W3045: what CDK writes that is not wrong.
_NOT_WRONG = ("W3005", "W3045")

Deployed = Callable[[str], Deployment]


@pytest.fixture(scope="module")
def deployed(synthesized: Synthesize) -> Deployed:
    """The deployment of a synthesis."""
    return cache(lambda name: deployment_in(synthesized(name).folder))


@pytest.mark.parametrize("name", _DEPLOYMENTS)
def test_aws_refuses_nothing(deployed: Deployed, name: str) -> None:
    assert not _refused(deployed(name))


def test_aws_refuses_nothing_of_a_service_that_is_in_one_stack(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path))
    stack = cdk.Stack(app, "Shop", env=cdk.Environment(region="us-east-1"))
    settings = service_settings(
        stack,
        "prod",
        image="111111111111.dkr.ecr.us-east-1.amazonaws.com/evenflow:1",
        alarms=AlarmSettings(page_email="on-call@example.com"),
        workers=WorkerServiceSettings(),
    )
    EvenflowService(stack, "Chat", settings=settings)
    app.synth()
    assert not _refused(deployment_in(tmp_path))


def _refused(deployment: Deployment) -> list[tuple[str, str]]:
    return [(limit.name, line) for limit in _LIMITS for line in limit.find(deployment)]


@pytest.mark.parametrize("name", _COMPARED_WITH_SCHEMAS)
def test_templates_are_as_cloudformations_schemas_allow(deployed: Deployed, name: str) -> None:
    deployment = deployed(name)
    for stack, template in deployment.templates.items():
        found = findings(template, deployment.regions[stack])
        assert not [match for match in found if match.rule.id not in _NOT_WRONG], stack


def test_schemas_find_what_is_written_wrongly(deployed: Deployed) -> None:
    faulty = deployed("prod").copy()
    faulty.first("AWS::WAFv2::WebACL").update(Name="two words", Scope="GLOBAL")
    found = findings(faulty.templates["evenflow-prod-us-east-1-firewall"])
    assert {match.rule.id for match in found} >= {"E3030", "E3031"}  # a choice, a pattern


@pytest.mark.parametrize("limit", _LIMITS, ids=lambda limit: limit.name)
def test_each_limit_finds_its_faults(deployed: Deployed, limit: Limit) -> None:
    assert limit.faults
    for number, fault in enumerate(limit.faults):
        faulty = deployed(limit.on).copy()
        fault(faulty)
        assert list(limit.find(faulty)), f"fault {number} of {limit.page}"


def test_limits_are_named_once_and_have_pages() -> None:
    assert len({limit.name for limit in _LIMITS}) == len(_LIMITS)
    for limit in _LIMITS:
        assert limit.page.partition("#")[0].endswith(".html")
