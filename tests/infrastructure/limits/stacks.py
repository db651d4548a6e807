"""CloudFormation's own limits, and what stacks have of each other."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.infrastructure.limits.deployment import Deployment, Template
from tests.infrastructure.limits.limit import Fault, Limit, too_many

_PAGE = "AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"
_OUTPUTS = "AWSCloudFormation/latest/UserGuide/outputs-section-structure.html"
_IMPORTS = (
    "AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-importvalue.html"
)
_REFERENCES = "AWSCloudFormation/latest/UserGuide/dynamic-references.html"
_STACK_NAME = "AWSCloudFormation/latest/APIReference/API_CreateStack.html"
_DYNAMIC = re.compile(r"\{\{resolve:")


def _counted(what: str, most: int, measure: Callable[[Template], int], fault: Fault) -> Limit:
    def find(deployment: Deployment) -> Iterator[str]:
        sizes = {stack: measure(template) for stack, template in deployment.templates.items()}
        yield from too_many(sizes, most, what)

    return Limit(f"a template: {most:,} {what}", _PAGE, find, (fault,))


def _filled(section: str, entry: Any, times: int) -> Fault:
    def fault(deployment: Deployment) -> None:
        template = _some(deployment)
        added = {f"Added{number}": entry for number in range(times)}
        template[section] = template.get(section, {}) | added

    return fault


def _some(deployment: Deployment) -> Template:
    return next(iter(deployment.templates.values()))


def _descriptions(deployment: Deployment) -> Iterator[str]:
    for stack, template in deployment.templates.items():
        texts = {"template": template.get("Description", "")}
        texts |= {name: o.get("Description", "") for name, o in template.get("Outputs", {}).items()}
        for name, text in texts.items():
            if len(text.encode()) > 1_024:
                yield f"{stack} {name}: {len(text)} characters"


def _described(deployment: Deployment) -> None:
    _some(deployment)["Description"] = "x" * 1_025


def _output_described(deployment: Deployment) -> None:
    _some(deployment)["Outputs"] = {"Long": {"Value": "1", "Description": "x" * 1_025}}


def _ids(deployment: Deployment) -> Iterator[str]:
    for stack, template in deployment.templates.items():
        for section in ("Resources", "Outputs", "Parameters"):
            for name in template.get(section, {}):
                if not re.fullmatch("[A-Za-z0-9]{1,255}", name):
                    yield f"{stack} {section}: {name}"


def _stack_names(deployment: Deployment) -> Iterator[str]:
    for stack in deployment.templates:
        if not re.fullmatch("[a-zA-Z][-a-zA-Z0-9]{0,127}", stack):
            yield stack


def _renamed(deployment: Deployment) -> None:
    stack, template = next(iter(deployment.templates.items()))
    deployment.templates["1st"] = template
    deployment.regions["1st"] = deployment.regions[stack]


def _exports(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """(stack, name) of each export."""
    for stack, template in deployment.templates.items():
        for output in template.get("Outputs", {}).values():
            if "Export" in output:
                yield stack, deployment.text(output["Export"]["Name"], stack)


def _export_names(deployment: Deployment) -> Iterator[str]:
    names = Counter(f"{deployment.regions[stack]} {name}" for stack, name in _exports(deployment))
    yield from too_many(names, 1, "exports")
    for stack, name in _exports(deployment):
        if not re.fullmatch("[A-Za-z0-9:-]{1,255}", name):
            yield f"{stack}: {name}"


def _exported(*names: str) -> Fault:
    def fault(deployment: Deployment) -> None:
        made = {
            f"Added{number}": {"Value": "1", "Export": {"Name": name}}
            for number, name in enumerate(names)
        }
        _some(deployment)["Outputs"] = _some(deployment).get("Outputs", {}) | made

    return fault


def _imported(template: Any) -> Iterator[Any]:
    """The names that a part of a template imports."""
    if isinstance(template, dict):
        if "Fn::ImportValue" in template:
            yield template["Fn::ImportValue"]
        for part in template.values():
            yield from _imported(part)
    elif isinstance(template, list):
        for part in template:
            yield from _imported(part)


def _imports(deployment: Deployment) -> Iterator[str]:
    """Of something that a stack of the region exports, and that is deployed before."""
    exporter = {(deployment.regions[stack], name): stack for stack, name in _exports(deployment)}
    needed: dict[str, set[str]] = {}
    for stack, template in deployment.templates.items():
        needed[stack] = set()
        for name in map(str, _imported(template)):
            found = exporter.get((deployment.regions[stack], name))
            if found is None:
                yield f"{stack}: nothing exports {name}"
            else:
                needed[stack].add(found)
    while ready := [stack for stack, others in needed.items() if not others & needed.keys()]:
        for stack in ready:
            del needed[stack]
    for stack in needed:
        yield f"{stack}: it imports from a stack that imports from it"


def _import(name: str) -> Fault:
    def fault(deployment: Deployment) -> None:
        _some(deployment)["Outputs"] = {"Added": {"Value": {"Fn::ImportValue": name}}}

    return fault


def _circle(deployment: Deployment) -> None:
    stack, name = next(iter(_exports(deployment)))
    template = deployment.templates[stack]
    template["Resources"]["Added"] = {
        "Type": "AWS::SNS::Topic", "Properties": {"TopicName": {"Fn::ImportValue": name}}
    }  # fmt: skip


def _dynamic_references(template: Template) -> int:
    return len(_DYNAMIC.findall(json.dumps(template)))


LIMITS = (
    _counted("resources", 500, lambda template: len(template["Resources"]),
             _filled("Resources", {"Type": "AWS::SNS::Topic"}, 501)),
    _counted("outputs", 200, lambda template: len(template.get("Outputs", {})),
             _filled("Outputs", {"Value": "1"}, 201)),
    _counted("parameters", 200, lambda template: len(template.get("Parameters", {})),
             _filled("Parameters", {"Type": "String"}, 201)),
    _counted("mappings", 200, lambda template: len(template.get("Mappings", {})),
             _filled("Mappings", {"a": {"b": "c"}}, 201)),
    _counted("bytes", 1_048_576, lambda template: len(json.dumps(template, indent=1).encode()),
             _filled("Outputs", {"Value": "x" * 1_048_576}, 1)),
    Limit("a template: 60 dynamic references", _REFERENCES,
          lambda deployment: too_many(
              {stack: _dynamic_references(t) for stack, t in deployment.templates.items()},
              60, "references"),
          (_filled("Outputs", {"Value": "{{resolve:ssm:a}}"}, 61),)),
    Limit("a description: 1,024 bytes", _PAGE, _descriptions, (_described, _output_described)),
    Limit("a logical id: 255 letters and digits", _PAGE, _ids,
          (lambda deployment: _some(deployment)["Resources"].update(
              {"a-b": {"Type": "AWS::SNS::Topic"}}),)),
    Limit("a stack's name: 128 letters, digits and hyphens", _STACK_NAME, _stack_names,
          (_renamed,)),
    Limit("an export's name: once in a region, and how it is written", _OUTPUTS, _export_names,
          (_exported("a", "a"), _exported("a_b"))),
    Limit("an import: of an export, and in no circle", _IMPORTS, _imports,
          (_import("nothing"), _circle)),
)  # fmt: skip
