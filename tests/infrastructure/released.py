"""The templates of releases, from which today's must be reachable.

`python -m tests.infrastructure.released 1.0.0` writes today's as those of a version.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from evenflow.infra.settings.environments import ENVIRONMENTS, environment
from evenflow.infra.settings.regions import GLOBAL_REGION
from evenflow.infra.updates.stacks import Stack, Stacks, synthesized_stacks
from tests.infrastructure.conftest import paging
from tests.infrastructure.synthesis import Synthesis, synthesize

_RELEASED = Path(__file__).with_name("released")


def stacks_of(synthesis: Synthesis) -> dict[str, Stack]:
    """The stacks of a synthesis, in the order of their deployment."""
    return synthesized_stacks(synthesis.folder, synthesis.settings.prefix)


def versions() -> list[str]:
    """The versions whose templates are kept, oldest first."""
    folders = (path.name for path in _RELEASED.iterdir() if path.is_dir())
    return sorted(folders, key=lambda name: [int(part) for part in name.split(".")])


def released_stacks(version: str, name: str) -> dict[str, Stack]:
    """The stacks of an environment of a version."""
    found = json.loads((_RELEASED / version / f"{name}.json").read_text("utf-8"))
    return {stack["name"]: Stack(**stack) for stack in found}


def write(version: str) -> None:
    """Write today's templates as those of a version, without what no rule of updates reads."""
    folder = _RELEASED / version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ENVIRONMENTS:
        with tempfile.TemporaryDirectory() as assembly:
            stacks = stacks_of(synthesize(paging(environment(name)), Path(assembly)))
        lines = (json.dumps(_compact(stack)) for stack in stacks.values())
        (folder / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")


def _compact(stack: Stack) -> dict[str, Any]:
    template = {
        "Resources": {
            logical_id: {
                key: resource[key]
                for key in ("Type", "Properties", "DeletionPolicy")
                if key in resource
            }
            for logical_id, resource in stack.resources.items()
        },
        "Outputs": stack.template.get("Outputs", {}),
    }
    return {
        "name": stack.name,
        "region": stack.region,
        "template": template,
        "tags": dict(stack.tags),
    }


def immutable_properties(kinds: Iterable[str]) -> dict[str, list[str]]:
    """The properties that replace a resource when changed, by type, from the schemas."""
    found = {}
    for kind in sorted(kinds):
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(GLOBAL_REGION, kind).schema
        paths = (
            *schema.get("createOnlyProperties", ()),
            *schema.get("conditionalCreateOnlyProperties", ()),
        )
        found[kind] = sorted(path.removeprefix("/properties/") for path in paths)
    return found


def kinds_in(*environments: Stacks) -> set[str]:
    """The types of resources in templates, without custom ones."""
    return {
        resource["Type"]
        for stacks in environments
        for stack in stacks.values()
        for resource in stack.resources.values()
        if resource["Type"].startswith("AWS::")
    }


def immutable_text(kinds: Iterable[str]) -> str:
    """The text of the table in infra/updates."""
    lines = (f" {json.dumps(kind)}: {json.dumps(names)}" for kind, names
             in immutable_properties(kinds).items())  # fmt: skip
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    write(sys.argv[1])
