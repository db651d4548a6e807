"""The pinned CDK command line, and what it says when something is missing."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from functools import partial
from pathlib import Path

import aws_cdk as cdk
import pytest

from evenflow.infra import announce
from tests.infrastructure.synthesis import ROOT, Synthesis

_INFRA = ROOT / "infra"


def test_the_cdk_command_line_is_pinned() -> None:
    """The npm tag `latest` is an accidental publish that can't read today's assemblies (aws-cdk
    #38113).
    """
    package = json.loads((_INFRA / "package.json").read_text("utf-8"))
    assert package["devDependencies"] == {"aws-cdk": "2.1148.1"}
    lock = json.loads((_INFRA / "package-lock.json").read_text("utf-8"))
    assert lock["packages"]["node_modules/aws-cdk"]["version"] == "2.1148.1"
    assert lock["packages"]["node_modules/aws-cdk"]["integrity"].startswith("sha512-")


def test_the_lock_names_no_download_address() -> None:
    assert '"resolved"' not in (_INFRA / "package-lock.json").read_text("utf-8")


def _run_app(variables: pytest.MonkeyPatch, output: pytest.CaptureFixture[str], name: str) -> str:
    """What it says when it refuses to synthesize."""
    variables.setenv("ENV", name)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "app.py"), run_name="__main__")
    assert ended.value.code == 1
    return output.readouterr().err


def test_the_app_names_the_environments_when_none_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _run_app(monkeypatch, capsys, "")
    assert said.startswith("there is no environment ''; choose one of dev, staging, prod")


def test_the_app_takes_the_environment_from_the_variable_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no environment 'qa'" in _run_app(monkeypatch, capsys, "qa")


def test_the_app_takes_the_entry_of_a_region_from_the_context(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGION", "sa-east-1")
    assert "region_lookup sa-east-1" in _run_app(monkeypatch, capsys, "dev")
    context = {"evenflow:region:sa-east-1": {"s3": "x"}}
    monkeypatch.setattr(cdk, "App", partial(cdk.App, context=context))
    assert "is no entry of a region" in _run_app(monkeypatch, capsys, "dev")


@pytest.mark.parametrize("name", ["staging", "prod"])
def test_an_environment_with_users_is_refused_without_somebody_to_wake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    said = _run_app(monkeypatch, capsys, name)
    assert said.startswith(f"{name} has nobody whom its alarms wake: in infra/environments.py")
    for way in ("page_email", "page_topic_arn", "nobody_is_paged=True"):
        assert way in said


def test_the_announcement_needs_a_synthesis(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evenflow.infra.announce", "dev"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "cdk.out has no evenflow-dev: `make synth ENV=dev` writes it\n"


def test_the_announcement_reads_what_was_synthesized_last(
    dev: Synthesis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "cdk.out").symlink_to(dev.folder)
    monkeypatch.chdir(tmp_path)
    assert announce.main(["dev"]) == 0
    assert capsys.readouterr().out.startswith("Environment evenflow-dev in us-east-1: 6 stacks\n")
    assert announce.main(["prod"]) == 1
