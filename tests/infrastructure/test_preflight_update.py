"""`make preflight` and `make deploy` compare what is deployed with what is synthesized."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenflow.infra.account.account import AwsAccount
from evenflow.infra.preflight.findings import PreflightFinding, Severity
from evenflow.infra.preflight.update import update_findings
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.synthesized_settings import write_settings
from tests.infrastructure.account_server import AccountServer, account_server
from tests.infrastructure.released import stacks_of
from tests.infrastructure.synthesis import ROOT, Synthesis
from tests.integration.aws_emulator import CREDENTIALS
from tests.integration.server_process import clean_environment


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch, dev: Synthesis) -> Iterator[AccountServer]:
    """An account with dev's stack of data, and one that failed at its creation."""
    with account_server({}) as account:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", account.endpoint)
        _with_stacks(account, data="UPDATE_COMPLETE", edge="ROLLBACK_COMPLETE")
        _deploy(account, dict(stacks_of(dev)["evenflow-dev-data"].template))
        yield account


def _with_stacks(account: AccountServer, **statuses: str) -> None:
    """Let the account have stacks of dev, by name and status."""

    def describe(query: dict[str, list[str]]) -> dict[str, Any] | str:
        name = query["StackName"][0]
        status = statuses.get(name.removeprefix("evenflow-dev-"))
        if status is None:
            return "ValidationError"
        return {"Stacks": [{"StackName": name, "StackStatus": status}]}

    account.answers["DescribeStacks"] = describe


def _deploy(account: AccountServer, template: dict[str, Any]) -> None:
    account.answers["GetTemplate"] = {"TemplateBody": json.dumps(template)}


def _found(dev: Synthesis, assembly: Path | None = None) -> list[PreflightFinding]:
    return list(update_findings(AwsAccount("us-east-1"), dev.settings, assembly or dev.folder))


def test_what_is_deployed_already_can_stay(deployed: AccountServer, dev: Synthesis) -> None:
    (finding,) = _found(dev)
    assert (finding.severity, finding.found[:21]) == (Severity.GOOD, "1 stacks are deployed")
    assert deployed.asked.count("GetTemplate") == 1


def test_what_an_update_would_break_stops_it(deployed: AccountServer, dev: Synthesis) -> None:
    text = deployed.answers["GetTemplate"]["TemplateBody"]
    _deploy(deployed, json.loads(text.replace('"GenerateStringKey": "public"',
                                              '"GenerateStringKey": "demo"')))  # fmt: skip
    (finding,) = _found(dev)
    assert (finding.name, finding.severity) == ("update 1", Severity.BAD)
    assert "evenflow-dev-tenant-keys would get a new random value" in finding.found
    assert finding.to_do


def test_what_is_to_be_done_beside_it_does_not_stop_it(
    deployed: AccountServer, dev: Synthesis
) -> None:
    _with_stacks(deployed, data="UPDATE_COMPLETE", canary="CREATE_COMPLETE")
    (finding,) = _found(dev)
    assert finding.severity is Severity.WARNING
    assert "delete-stack --stack-name evenflow-dev-canary" in finding.to_do


def test_without_a_synthesis_nothing_is_compared(
    deployed: AccountServer, dev: Synthesis, tmp_path: Path
) -> None:
    (finding,) = _found(dev, tmp_path)
    assert (finding.severity, finding.to_do[:18]) == (Severity.WARNING, "make synth ENV=dev")
    _with_stacks(deployed)
    (finding,) = _found(dev, tmp_path)
    assert finding.severity is Severity.GOOD


def test_an_account_that_does_not_say_is_not_deployed_to(
    deployed: AccountServer, dev: Synthesis
) -> None:
    deployed.answers["GetTemplate"] = "AccessDenied"
    (finding,) = _found(dev)
    assert finding.severity is Severity.BAD
    assert "get_template: AccessDenied" in finding.found


def test_a_deployment_asks_for_nothing_else(deployed: AccountServer, tmp_path: Path) -> None:
    variables = {**CREDENTIALS, "AWS_ENDPOINT_URL": deployed.endpoint, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "evenflow.infra.preflight", "--only-update"]
    (tmp_path / "cdk.out").mkdir()
    write_settings(environment("dev"), tmp_path / "cdk.out")
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=clean_environment(variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "cdk.out has no evenflow-dev" in done.stdout) == (0, True), done.stderr
    assert set(deployed.asked) == {"DescribeStacks", "GetTemplate"}
