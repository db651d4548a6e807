"""The emulated deployment under `make preflight` and `make smoke`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from evenflow.functions.canary.checks import as_table
from evenflow.functions.canary.front_door import FrontDoor
from evenflow.functions.canary.smoke import CanaryCaller, smoke
from evenflow.infra.preflight.__main__ import preflight
from evenflow.infra.preflight.findings import Severity
from evenflow.infra.preflight.network import EDGE_QUOTAS
from evenflow.infra.settings.environments import environment
from tests.aws.running_system import RunningSystem
from tests.infrastructure.account_server import account_server, well
from tests.integration.chat_client import demo

# The first test starts the system, on a machine that others may be using.
pytestmark = pytest.mark.timeout(400)


async def test_every_call_through_the_one_address_is_in_order(system: RunningSystem) -> None:
    caller = CanaryCaller(FrontDoor(system.url), demo(tokens=40, gap_ms=30))
    findings = await asyncio.to_thread(smoke, caller)
    assert [f.check.name for f in findings if f.wrong is not None] == [], as_table(findings)
    assert len(findings) == 20


def test_the_account_is_ready(system: RunningSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator answers for the identity and the bootstrap. A second server answers for quotas,
    networks and CloudFront: the emulator lacks some of their calls.
    """
    with account_server(well()) as quotas:
        for name, value in system.aws.environment.items():
            monkeypatch.setenv(name, value)
        for service in ("SERVICE_QUOTAS", "EC2", "CLOUDFRONT"):
            monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", quotas.endpoint)
        assembly = system.deployment.assembly.folder
        findings = list(preflight(environment("dev"), datetime.now(UTC), assembly))
    verdicts = {finding.name: finding.severity for finding in findings}
    verdicts.pop("image builder")  # this machine need not have one
    assert verdicts == dict.fromkeys(
        [
            *(
                "credentials",
                "CDK bootstrap, us-east-1",
                "kept resources",
                "Fargate On-Demand vCPU",
                "update",
            ),
            *("VPCs of the region", "internet gateways of the region", "VPC Block Public Access"),
            *("CloudFront, verified account", *(quota.name for quota in EDGE_QUOTAS)),
        ],
        Severity.GOOD,
    ) | {"DynamoDB writes a second of a table": Severity.WARNING}  # no new table takes so many
    assert "GetServiceQuota" in quotas.asked
    assert "GetCallerIdentity" not in quotas.asked
