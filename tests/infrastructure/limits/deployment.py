"""The templates of one deployment, with what AWS puts into them."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Template = dict[str, Any]
Properties = dict[str, Any]

_PSEUDO = {
    "AWS::AccountId": "111111111111",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}
_STEP = re.compile(r"[^.\[\]]+|\[\]")


@dataclass
class Deployment:
    """The templates by their stack's whole name. Faults change them in place.

    Args:
        regions: of each stack.
        asset_bytes: the unpacked size of each asset of the cloud assembly, by its hash.
    """

    templates: dict[str, Template]
    regions: dict[str, str]
    asset_bytes: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Deployment:
        """A copy that a fault may change."""
        templates = json.loads(json.dumps(self.templates))
        return Deployment(templates, dict(self.regions), dict(self.asset_bytes))

    def resources(self, kind: str) -> Iterator[tuple[str, Properties]]:
        """(stack and logical id, properties) of all resources of a type."""
        for stack, template in self.templates.items():
            for name, resource in template["Resources"].items():
                if resource["Type"] == kind:
                    yield f"{stack}/{name}", resource.setdefault("Properties", {})

    def first(self, kind: str) -> Properties:
        """The properties of the first resource of a type."""
        return next(properties for _, properties in self.resources(kind))

    def text(self, value: Any, stack: str) -> str:
        """A value as AWS will have it. A reference is replaced by text of a likely length."""
        match value:
            case str():
                return value
            case {"Fn::Join": [separator, parts]}:
                return str(separator).join(self.text(part, stack) for part in parts)
            case {"Fn::Sub": str(pattern)}:
                return re.sub(
                    r"\$\{([^}]+)\}", lambda name: self.text({"Ref": name[1]}, stack), pattern
                )
            case dict():
                return self._referred_to(value, stack)
            case _:
                return str(value)

    def _referred_to(self, reference: Mapping[str, Any], stack: str) -> str:
        match reference:
            case {"Ref": "AWS::Region"}:
                return self.regions[stack]
            case {"Ref": str(name)}:
                return _PSEUDO.get(name) or self._physical_name(name, stack)
            case {"Fn::GetAtt": [str(name), *_]}:
                name = self._physical_name(name, stack)
                return f"arn:aws:elasticloadbalancing:{self.regions[stack]}:111111111111:{name}"
            case {"Fn::ImportValue": name}:
                return f"arn:aws:dynamodb:{self.regions[stack]}:111111111111:{name}"
            case _:  # what is cut out of something else, such as Fn::Select
                return "selected-part"

    def document(self, value: Any, stack: str) -> Any:
        """A nested value with all references replaced."""
        if isinstance(value, dict):
            if len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref")):
                return self.text(value, stack)
            return {key: self.document(member, stack) for key, member in value.items()}
        return [self.document(item, stack) for item in value] if isinstance(value, list) else value

    def size(self, value: Any, stack: str) -> int:
        """The bytes of a value as compact JSON."""
        return len(json.dumps(self.document(value, stack), separators=(",", ":")).encode())

    def target(self, value: Any, stack: str) -> str:
        """The resource that a reference means, also one of another stack."""
        match value:
            case {"Fn::ImportValue": str(export)}:
                for other, template in self.templates.items():
                    for output in template.get("Outputs", {}).values():
                        if output.get("Export", {}).get("Name") == export:
                            return self.target(output["Value"], other)
                return export
            case {"Fn::GetAtt": [str(name), *_]} | {"Ref": str(name)}:
                return f"{stack}/{name}"
            case _:
                return json.dumps(value)

    def _physical_name(self, name: str, stack: str) -> str:
        """The name that a resource has, or about the one that CloudFormation makes."""
        resource = self.templates[stack]["Resources"].get(name, {})
        properties = resource.get("Properties", {})
        short = str(resource.get("Type", "")).rpartition("::")[2]
        for key in (f"{short}Name", "AlarmName", "Name"):
            if isinstance(value := properties.get(key), str):
                return value
        return f"{stack}-{name}-ABCDEFGHIJKL"[:64]


def deployment_in(folder: Path) -> Deployment:
    """The deployment that a cloud assembly describes."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    templates, regions = {}, {}
    for stack, artifact in manifest["artifacts"].items():
        if artifact["type"] == "aws:cloudformation:stack":
            file = folder / artifact["properties"]["templateFile"]
            templates[stack] = json.loads(file.read_text("utf-8"))
            regions[stack] = artifact["environment"].rsplit("/", 1)[-1]
    return Deployment(templates, regions, _asset_bytes(folder))


def _asset_bytes(folder: Path) -> dict[str, int]:
    return {
        asset.name.removeprefix("asset.").removesuffix(".zip"): _unpacked_bytes(asset)
        for asset in folder.glob("asset.*")
    }


def _unpacked_bytes(asset: Path) -> int:
    if asset.suffix == ".zip":
        with zipfile.ZipFile(asset) as packed:
            return sum(entry.file_size for entry in packed.infolist())
    return sum(file.stat().st_size for file in asset.rglob("*") if file.is_file())


def values(properties: Mapping[str, Any], path: str) -> Iterator[Any]:
    """The values at a path such as `Rules[].Name`; none where a part of it is not there."""
    found: list[Any] = [properties]
    for step in _STEP.findall(path):
        if step == "[]":
            found = [item for value in found if isinstance(value, list) for item in value]
        else:
            found = [value[step] for value in found if isinstance(value, dict) and step in value]
    yield from found


def replace_first(
    deployment: Deployment, kind: str, path: str, value: Any, *, optional: bool = False
) -> None:
    """Put a value in the place of the first one at a path.

    Args:
        optional: whether it may be missing everywhere. Then the first resource gets it.
    """
    above, _, last = path.rpartition(".")
    in_list = last.endswith("[]")
    last = last.removesuffix("[]")
    for _, properties in deployment.resources(kind):
        for holder in values(properties, above) if above else (properties,):
            if isinstance(holder, dict) and (optional or last in holder):
                if in_list:
                    holder[last][0] = value
                else:
                    holder[last] = value
                return
    raise LookupError(f"no {kind} has {path}")
