"""Reads settings from CDK's context: `-c env=prod -c edge.domain_name=chat.example.com`.

Permanent ones are in cdk.context.json, for all environments or in an object named after one.
CDK reads that file, `-c` and cdk.json into one context, and the app sees the result.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import ENVIRONMENTS, environment
from evenflow.infra.settings.regions import region_named
from evenflow.infra.settings.setting_paths import WrongSettingError

DEFAULT_ENVIRONMENT = "dev"
# The keys of CDK and of its plugins have a colon or a slash, or dashes and no dot.
_OURS = re.compile(r"\w+|[\w-]+(\.[\w-]+)+")
_GROUPS = EnvironmentSettings.model_fields


def settings_from_context(context: Mapping[str, object]) -> EnvironmentSettings:
    """The settings of the environment that the context names.

    Raises:
        UnknownEnvironmentError: there is no environment of that name.
        UnknownRegionError: neither the context nor the table of regions has it.
        WrongSettingError: a setting doesn't exist, or can't have that value.
    """
    overrides = {key: value for key, value in context.items() if _is_ours(key)}
    name = str(overrides.pop("env", DEFAULT_ENVIRONMENT))
    sections = {section: overrides.pop(section, {}) for section in ENVIRONMENTS}
    section = sections.get(name, {})
    if not isinstance(section, Mapping):
        raise WrongSettingError(f"{name} must be an object of settings, in cdk.context.json")
    # CDK merges -c with what the file has for all environments, but only -c goes before a section.
    for_all = {
        path: value for path, value in _file_settings().items() if overrides.get(path) == value
    }
    by_command = {path: value for path, value in overrides.items() if path not in for_all}
    changes = {**for_all, **section, **by_command}
    for path, value in changes.items():
        if value == "":
            raise WrongSettingError(f"{path} is empty: give it a value, or leave it out")
        if path in {"name", "environment"} or difflib.get_close_matches(path, ["env"]):
            raise WrongSettingError(f"there is no setting {path!r}; did you mean env?")
        if isinstance(value, Mapping) and path.split(".")[0] not in _GROUPS:
            raise WrongSettingError(
                f"{path!r} is no environment; an object of settings is for one of "
                f"{', '.join(ENVIRONMENTS)}"
            )
    if isinstance(region := changes.get("region"), str):
        changes["region"] = region_named(region, context)
    return environment(name, **changes)


def _file_settings() -> Mapping[str, object]:
    """What cdk.context.json has for all environments."""
    file = Path("cdk.context.json")
    settings: Mapping[str, object] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return settings


def _is_ours(key: str) -> bool:
    """Whether a key is a setting, or meant as one, such as `open-tenant`."""
    return _OURS.fullmatch(key) is not None or key.replace("-", "_") in _GROUPS
