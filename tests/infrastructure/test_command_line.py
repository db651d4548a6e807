"""The pinned CDK command line, and what it says when something is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evenflow.infra import announce
from evenflow.infra.settings.synthesized_settings import (
    NotSynthesizedError,
    read_settings,
    write_settings,
)
from tests.infrastructure.conftest import Synthesize
from tests.infrastructure.synthesis import ROOT

_INFRA = ROOT / "infra"
# Without the folder of the environment that runs the tests.
_PLAIN_PATH = os.pathsep.join(
    folder
    for folder in os.environ["PATH"].split(os.pathsep)
    if not Path(folder).resolve().is_relative_to(Path(sys.prefix).resolve())
)


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


def _synthesize(*options: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`cdk synth` as cdk.json has it, without an activated environment."""
    command = [str(_INFRA / "node_modules/.bin/cdk"), "synth", "--quiet", *options]
    variables = {"PATH": _PLAIN_PATH, "HOME": str(folder)}
    return subprocess.run(
        [*command, "--output", str(folder / "cdk.out")],
        cwd=ROOT, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_plain_cdk_synthesizes_with_the_settings_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = _synthesize(
        *("-c", "env=prod", "-c", "alarms.page_email=on-call@example.com"),
        *("-c", "installation=acme", "-c", "allowed_origins=https://a.example.com"),
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "end-of-life" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith(("acme-", "no -c"))]
    assert len(lines) == 1
    assert lines[0].startswith("acme-prod in us-east-1: 8 stacks, about $")
    monkeypatch.chdir(tmp_path)
    # What preflight and the announcement look at.
    settings = read_settings()
    assert settings.alarms.page_email == "on-call@example.com"
    assert settings.allowed_origins == ("https://a.example.com",)
    assert announce.main() == 0
    assert capsys.readouterr().out.startswith("Environment acme-prod in us-east-1: 8 stacks\n")


def test_plain_cdk_says_what_is_missing(tmp_path: Path) -> None:
    done = _synthesize("-c", "env=staging", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("alarms of staging page nobody: set alarms.page_email=")
    for way in ("page_topic_arn", "nobody_is_paged=true", "by `-c`"):
        assert way in done.stderr
    assert not (tmp_path / "cdk.out" / "manifest.json").exists()


def _run_app(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The app as cdk.json starts it, where the first Python has none of its packages."""
    app = json.loads((ROOT / "cdk.json").read_text("utf-8"))["app"]
    bare = folder / "bin" / "python3"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    path = os.pathsep.join([str(bare.parent), os.environ["PATH"]])
    return subprocess.run(
        ["/bin/sh", "-c", app],
        cwd=folder,
        env={"PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def app_folder(tmp_path: Path) -> Path:
    """The app where nothing is installed."""
    (tmp_path / "evenflow").symlink_to(ROOT / "evenflow")
    shutil.copyfile(ROOT / "app.py", tmp_path / "app.py")
    return tmp_path


def test_the_app_says_what_installs_its_packages(app_folder: Path) -> None:
    done = _run_app(app_folder)
    assert done.returncode == 1
    assert done.stderr.endswith(
        "`make cdk` installs what it needs into .venv, where app.py finds it\n"
    )
    assert "No module named" in done.stderr


def test_the_app_goes_on_in_the_environment_beside_it(app_folder: Path) -> None:
    (app_folder / ".venv").symlink_to(sys.prefix)
    # So that it ends before it synthesizes anything.
    done = _run_app(app_folder, CDK_CLI_ASM_VERSION="43.0.0", CDK_CLI_VERSION="3.0.0")
    assert done.returncode == 1
    assert done.stderr.startswith("the CDK command line 3.0.0 can't read what this CDK writes")
    assert "npm install --global aws-cdk@2" in done.stderr


def test_an_empty_environment_beside_it_is_not_tried_again_and_again(app_folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=app_folder, check=True
    )
    done = _run_app(app_folder)
    assert (done.returncode, "`make cdk` installs" in done.stderr) == (1, True)


def test_the_announcement_needs_a_synthesis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert announce.main() == 1
    assert capsys.readouterr().err == (
        "cdk.out/evenflow-settings.json is missing: `cdk synth -c env=dev` or `make synth ENV=dev` "
        "writes it\n"
    )


def test_the_settings_of_another_version_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "evenflow-settings.json").write_text('{"moved": 1}')
    with pytest.raises(NotSynthesizedError, match="is of another version of Evenflow"):
        read_settings(tmp_path)


@pytest.mark.parametrize("name", ["dev", "prod", "choosy", "staging-workers"])
def test_settings_are_read_as_they_were_written(
    synthesized: Synthesize, tmp_path: Path, name: str
) -> None:
    settings = synthesized(name).settings
    write_settings(settings, tmp_path)
    assert read_settings(tmp_path) == settings
