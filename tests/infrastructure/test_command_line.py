"""The pinned CDK command line, and what it says when something is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.infrastructure.synthesis import ROOT, Synthesis

_INFRA = ROOT / "infra"


def test_the_cdk_command_line_is_pinned() -> None:
    """The npm tag `latest` is an accidental publish that can't read today's assemblies (aws-cdk #38113)."""
    package = json.loads((_INFRA / "package.json").read_text("utf-8"))
    assert package["devDependencies"] == {"aws-cdk": "2.1148.1"}
    lock = json.loads((_INFRA / "package-lock.json").read_text("utf-8"))
    assert lock["packages"]["node_modules/aws-cdk"]["version"] == "2.1148.1"
    assert lock["packages"]["node_modules/aws-cdk"]["integrity"].startswith("sha512-")


def test_the_lock_names_no_download_address() -> None:
    assert '"resolved"' not in (_INFRA / "package-lock.json").read_text("utf-8")


def _run(*arguments: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": os.environ["HOME"], **environment}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_the_app_names_the_environments_when_none_is_given() -> None:
    done = _run("app.py")
    assert done.returncode == 1
    assert "there is no environment ''; choose one of dev, staging, prod" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_app_takes_the_environment_from_the_variable_too() -> None:
    assert "there is no environment 'qa'" in _run("app.py", ENV="qa").stderr


def test_the_announcement_needs_a_synthesis(tmp_path: Path) -> None:
    done = _run("-m", "infra.announce", "dev", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "cdk.out has no evenflow-dev: `make synth ENV=dev` writes it\n"


def test_the_announcement_reads_what_was_synthesized_last(dev: Synthesis, tmp_path: Path) -> None:
    (tmp_path / "cdk.out").symlink_to(dev.folder)
    done = _run("-m", "infra.announce", "dev", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Environment dev in us-east-1: 6 stacks\n")
    assert _run("-m", "infra.announce", "prod", folder=tmp_path).returncode == 1
