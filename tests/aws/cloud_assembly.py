"""The synthesized app: what `cdk synth` writes for one environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.server_process import ROOT

CDK = ROOT / "infra" / "node_modules" / ".bin" / "cdk"
_QUIET = {"NODE_NO_WARNINGS": "1", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1"}


class CdkError(Exception):
    """The CDK command line failed. The message has what it printed."""


@dataclass(frozen=True)
class ImageAsset:
    """A container image by its place in ECR, `${AWS::AccountId}` and `${AWS::Region}` not filled
    in.
    """

    repository: str
    tag: str


@dataclass(frozen=True)
class CloudAssembly:
    """The folder, and the template of each stack by the stack's name."""

    folder: Path
    templates: Mapping[str, Mapping[str, Any]]

    def images(self) -> Iterator[ImageAsset]:
        """The container images that the stacks take from ECR."""
        for manifest in self.folder.glob("*.assets.json"):
            for image in json.loads(manifest.read_text())["dockerImages"].values():
                for place in image["destinations"].values():
                    yield ImageAsset(place["repositoryName"], place["imageTag"])


def synthesize(environment: str, folder: Path, log: Path) -> CloudAssembly:
    """`cdk synth` of the app, without credentials.

    Args:
        environment: dev, staging or prod.
        folder: what it writes into.

    Raises:
        CdkError: it failed.
    """
    run_cdk(
        ["synth", "--quiet", "--context", f"env={environment}", "--output", str(folder)], {}, log
    )
    manifest = json.loads((folder / "manifest.json").read_text())
    stacks = (
        a for a in manifest["artifacts"].items() if a[1]["type"] == "aws:cloudformation:stack"
    )
    templates = {
        artifact["properties"].get("stackName", name): json.loads(
            (folder / artifact["properties"]["templateFile"]).read_text()
        )
        for name, artifact in stacks
    }
    return CloudAssembly(folder, templates)


def run_cdk(arguments: list[str], variables: Mapping[str, str], log: Path) -> None:
    """Run the CDK command line of infra/package.json.

    Args:
        arguments: the command and its options; without `--app` the app is this repository's.
        log: takes what it prints.

    Raises:
        CdkError: it failed.
    """
    if "--app" not in arguments:
        arguments = [*arguments, "--app", f"{sys.executable} app.py"]
    # CDK remembers in its home which account a key belongs to; an emulator's is nobody's to
    # remember.
    environment = {**os.environ, **_QUIET, "CDK_HOME": str(log.parent / "cdk.home"), **variables}
    with log.open("ab") as output:
        status = subprocess.call(
            [CDK, *arguments], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    if status != 0:
        raise CdkError(
            f"cdk {arguments[0]} ended with {status}:\n{log.read_text(errors='replace')}"
        )
