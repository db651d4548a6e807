"""The app, synthesized once per environment, and ways to look into its templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from evenflow.infra.application import build_application
from evenflow.infra.settings.environment_settings import EnvironmentSettings

ROOT = Path(__file__).resolve().parents[2]

Resource = dict[str, Any]
"""A resource of a template: `Type`, `Properties` …"""


@dataclass(frozen=True)
class Synthesis:
    """What `cdk synth` writes.

    Args:
        templates: by the stack's name without `evenflow-<env>-`, and without the region that stacks
            in us-east-1 are named after.
        folder: the cloud assembly, with the assets.
    """

    settings: EnvironmentSettings
    templates: dict[str, dict[str, Any]]
    folder: Path

    def of_type(self, kind: str, stack: str | None = None) -> dict[str, Resource]:
        """All resources of a type, of one stack or of all, by logical id."""
        chosen = [self.templates[stack]] if stack else list(self.templates.values())
        return {
            name: r
            for template in chosen
            for name, r in template["Resources"].items()
            if r["Type"] == kind
        }

    def only(self, kind: str, stack: str | None = None) -> dict[str, Any]:
        """The properties of the one resource of a type."""
        found = list(self.of_type(kind, stack).values())
        assert len(found) == 1, f"{len(found)} of {kind}"
        properties: dict[str, Any] = found[0]["Properties"]
        return properties

    @property
    def validation_report(self) -> dict[str, Any]:
        """What cdk-nag and CDK found."""
        report: dict[str, Any] = json.loads(
            (self.folder / "validation-report.json").read_text("utf-8")
        )
        return report


def synthesize(
    settings: EnvironmentSettings, folder: Path, more_context: Mapping[str, str] | None = None
) -> Synthesis:
    """Synthesize as `cdk synth` does, without its command line.

    Args:
        more_context: beside what cdk.json has.

    Raises:
        RuntimeError: cdk-nag found something that is not acknowledged.
    """
    context = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]
    app = cdk.App(context={**context, **(more_context or {})}, outdir=str(folder))
    build_application(app, settings)
    app.synth()
    templates = {
        path.name.removesuffix(".template.json")
        .removeprefix(f"{settings.prefix}-")
        .removeprefix(f"{settings.region.name}-"): json.loads(path.read_text("utf-8"))
        for path in sorted(folder.glob("*.template.json"))
    }
    return Synthesis(settings, templates, folder)
