"""CDK's bootstrap may have another qualifier than CDK's own, as landing zones give it."""

from __future__ import annotations

import json
from pathlib import Path

import aws_cdk as cdk
import pytest

from evenflow.infra.account.account import AwsAccount
from evenflow.infra.preflight.target_account import bootstrap_finding
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.synthesized_settings import DEFAULT_QUALIFIER, bootstrap_qualifier
from tests.infrastructure.account_server import account_server, well
from tests.infrastructure.synthesis import synthesize
from tests.infrastructure.test_deployer import deployer_template
from tests.integration.aws_emulator import CREDENTIALS

_QUALIFIER = {"@aws-cdk/core:bootstrapQualifier": "acme1"}


def test_cdks_own_is_known_without_cdk() -> None:
    assert cdk.DefaultStackSynthesizer.DEFAULT_QUALIFIER == DEFAULT_QUALIFIER


def test_an_environment_is_synthesized_for_it(tmp_path: Path) -> None:
    """cdk-nag finds nothing, or it would fail."""
    synthesis = synthesize(environment("dev"), tmp_path, _QUALIFIER)
    written = json.dumps(synthesis.templates)
    assert "cdk-acme1-assets-" in written
    assert DEFAULT_QUALIFIER not in written
    assert bootstrap_qualifier(tmp_path) == "acme1"
    assert bootstrap_qualifier(tmp_path / "nothing") == DEFAULT_QUALIFIER


def test_the_deployer_assumes_its_roles(tmp_path: Path) -> None:
    written = json.dumps(deployer_template(tmp_path, context=_QUALIFIER))
    assert "role/cdk-acme1-deploy-role-" in written
    assert DEFAULT_QUALIFIER not in written


def test_preflight_asks_for_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    with account_server({**well(), "GetParameter": "ParameterNotFound"}) as server:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": server.endpoint}.items():
            monkeypatch.setenv(name, value)
        finding = bootstrap_finding(AwsAccount("us-east-1"), "us-east-1", "acme1")
    assert "cdk-bootstrap/acme1/version" in server.bodies[-1]
    assert "--qualifier acme1" in finding.to_do
