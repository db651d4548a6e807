"""The settings of the last synthesis, which preflight and the announcement read."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pydantic import ValidationError

from evenflow.infra.settings.environment_settings import EnvironmentSettings

ASSEMBLY = Path("cdk.out")
"""Where `cdk synth` and `cdk deploy` write, as cdk.json says."""
DEFAULT_QUALIFIER = "hnb659fds"
"""CDK's own. Importing it from CDK would start Node."""
_FILE = "evenflow-settings.json"


class NotSynthesizedError(Exception):
    """There is no synthesis yet, or one of another version of Evenflow."""


def write_settings(settings: EnvironmentSettings, assembly: Path) -> None:
    """Write the settings into the folder of the templates that were made from them."""
    (assembly / _FILE).write_text(settings.model_dump_json(indent=2), "utf-8")


def read_settings(assembly: Path = ASSEMBLY) -> EnvironmentSettings:
    """The settings of the last synthesis.

    Raises:
        NotSynthesizedError: there is none.
    """
    file = assembly / _FILE
    try:
        return EnvironmentSettings.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        what = f"{file} is missing"
    except ValidationError:
        what = f"{file} is of another version of Evenflow"
    raise NotSynthesizedError(f"{what}: `cdk synth -c env=dev` or `make synth ENV=dev` writes it")


def bootstrap_qualifier(assembly: Path = ASSEMBLY) -> str:
    """The qualifier of the bootstrap that CDK deploys by."""
    manifest = assembly / "manifest.json"
    artifacts = json.loads(manifest.read_text("utf-8"))["artifacts"] if manifest.is_file() else {}
    for artifact in artifacts.values():
        parameter = artifact.get("properties", {}).get("bootstrapStackVersionSsmParameter", "")
        if found := re.fullmatch("/cdk-bootstrap/([^/]+)/version", parameter):
            return found[1]
    return DEFAULT_QUALIFIER
