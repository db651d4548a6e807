"""Resources that the emulator refuses, and their whole stacks with them: taken out of the templates
before the deployment.

ministack says so by name (`Unrecognized resource types`, `… is not supported`), and a test asks it
again for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.aws.cloud_assembly import CloudAssembly
from tests.aws.edge_routes import references

Resource = Mapping[str, Any]

REFUSED_TYPES: Mapping[str, str] = {
    "AWS::ApplicationAutoScaling::ScalableTarget": "unknown to it",
    "AWS::ApplicationAutoScaling::ScalingPolicy": "unknown to it",
    "AWS::CloudFront::VpcOrigin": "unknown to it",
    "AWS::CloudWatch::CompositeAlarm": "unknown to it",
    "AWS::EC2::SecurityGroupEgress": "unknown to it",
    "AWS::EC2::SecurityGroupIngress": "unknown to it",
    "AWS::SecretsManager::RotationSchedule": "unknown to it",
    "Custom::CDKBucketDeployment": "its function needs programs of AWS's run time",
    "Custom::S3AutoDeleteObjects": "its function needs the SDK of AWS's run time",
}


@dataclass(frozen=True)
class RefusedResource:
    """One that was taken out. `path` is its place in the construct tree."""

    path: str
    kind: str
    reason: str


def construct_path(resource: Resource) -> str:
    """Its place in the construct tree, which unlike the logical id can be read."""
    path: str = resource["Metadata"]["aws:cdk:path"]
    return path


def take_out_refused(assembly: CloudAssembly) -> list[RefusedResource]:
    """Rewrite the templates in the assembly's folder without what would be refused, and without
    what refers to that.
    """
    taken: list[RefusedResource] = []
    templates = {
        name: json.loads(json.dumps(template)) for name, template in assembly.templates.items()
    }
    gone_exports: set[str] = set()
    while found := [
        f for template in templates.values() for f in _take_out_once(template, gone_exports)
    ]:
        taken += found
    for name, template in templates.items():
        _forget_dependencies(template)
        (assembly.folder / f"{name}.template.json").write_text(json.dumps(template))
    return taken


def _take_out_once(template: dict[str, Any], gone_exports: set[str]) -> Iterator[RefusedResource]:
    resources = template["Resources"]
    parameters = template.get("Parameters", {})

    def missing(value: Any) -> bool:
        there = resources.keys() | parameters.keys()
        names = {name for name in references(value) if not name.startswith("AWS::")}
        return bool(names - there) or bool(gone_exports & set(_imports(value)))

    for logical_id, resource in list(resources.items()):
        reason = _refused(resource)
        if reason is None and missing(resource.get("Properties", {})):
            reason = "refers to a refused one"
        if reason is not None:
            del resources[logical_id]
            yield RefusedResource(construct_path(resource), resource["Type"], reason)
    for name, output in list(template.get("Outputs", {}).items()):
        if missing(output["Value"]):
            gone_exports.add(output.get("Export", {}).get("Name", ""))
            del template["Outputs"][name]


def _refused(resource: Resource) -> str | None:
    kind = resource["Type"]
    if kind == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"]:
        return "metric math"
    return REFUSED_TYPES.get(kind)


def _imports(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "Fn::ImportValue" in value:
            yield str(value["Fn::ImportValue"])
        for inner in value.values():
            yield from _imports(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _imports(inner)


def _forget_dependencies(template: dict[str, Any]) -> None:
    resources = template["Resources"]
    for resource in resources.values():
        wanted = resource.get("DependsOn", [])
        kept = [
            name for name in ([wanted] if isinstance(wanted, str) else wanted) if name in resources
        ]
        if kept:
            resource["DependsOn"] = kept
        else:
            resource.pop("DependsOn", None)
