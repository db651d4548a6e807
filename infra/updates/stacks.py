"""An environment's stacks: their templates, and what these export, import and name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_STACK = "aws:cloudformation:stack"


@dataclass(frozen=True, slots=True)
class Stack:
    """One stack with its template, deployed or synthesized.

    Args:
        tags: those of the stack itself, which CloudFormation gives to all of its resources.
        is_protected: whether it can't be deleted before its protection is off.
    """

    name: str
    region: str
    template: Mapping[str, Any]
    tags: Mapping[str, str] = field(default_factory=dict)
    is_protected: bool = False

    @property
    def resources(self) -> Mapping[str, Any]:
        """Its resources by logical id."""
        resources: Mapping[str, Any] = self.template.get("Resources", {})
        return resources

    def of_type(self, kind: str) -> dict[str, Any]:
        """The properties of the resources of a type, by logical id."""
        return {
            logical_id: resource.get("Properties", {})
            for logical_id, resource in self.resources.items()
            if resource["Type"] == kind
        }

    @property
    def exports(self) -> dict[str, Any]:
        """The values that it exports, by name."""
        return {
            output["Export"]["Name"]: output["Value"]
            for output in self.template.get("Outputs", {}).values()
            if isinstance(output.get("Export", {}).get("Name"), str)
        }

    @property
    def imports(self) -> frozenset[str]:
        """The names of other stacks' exports that it imports."""
        names = values_of(self.template.get("Resources", {}), "Fn::ImportValue")
        return frozenset(name for name in names if isinstance(name, str))


Stacks = Mapping[str, Stack]
"""An environment's stacks by name, in the order of their deployment."""


def values_of(value: Any, function: str) -> Iterator[Any]:
    """The arguments of an intrinsic function, wherever it is called in a part of a template."""
    if isinstance(value, Mapping):
        if set(value) == {function}:
            yield value[function]
        for part in value.values():
            yield from values_of(part, function)
    elif isinstance(value, list):
        for part in value:
            yield from values_of(part, function)


def referred_ids(value: Any) -> frozenset[str]:
    """The logical ids that a part of a template refers to."""
    by_attribute = (
        argument.partition(".")[0] if isinstance(argument, str) else argument[0]
        for argument in values_of(value, "Fn::GetAtt")
    )
    return frozenset((*values_of(value, "Ref"), *by_attribute))


def synthesized_stacks(folder: Path, prefix: str) -> dict[str, Stack]:
    """The stacks of a cloud assembly with names that begin with a prefix and a hyphen.

    Only those that the manifest names: older files may be in the same folder. Empty if there is
    no assembly.
    """
    manifest = folder / "manifest.json"
    artifacts = json.loads(manifest.read_text("utf-8"))["artifacts"] if manifest.is_file() else {}
    return {
        name: Stack(
            name=name,
            region=artifact["environment"].rsplit("/", 1)[-1],
            template=json.loads(
                (folder / artifact["properties"]["templateFile"]).read_text("utf-8")
            ),
            tags=artifact["properties"].get("tags", {}),
        )
        for name, artifact in artifacts.items()
        if artifact["type"] == _STACK and name.startswith(f"{prefix}-")
    }
