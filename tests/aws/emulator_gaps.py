"""What the emulator refuses, creates otherwise than the template says, or creates without anybody
looking: all of it by name.

`emulator_gaps.json` is the list as it was reviewed; beside each kind of resource it names the tests
that look at it in the template. `python -m tests.aws.emulator_gaps` deploys, and writes the list
again (the names of tests are yours to add).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.aws.cloud_assembly import synthesize
from tests.aws.created_resources import NOT_READABLE, created_properties
from tests.aws.deployment import Deployment
from tests.aws.ministack import ministack
from tests.aws.refused_resources import RefusedResource, construct_path, take_out_refused
from tests.aws.template_comparison import differences

LIST = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class EmulatorGaps:
    """Each by the kind of the resource, in the order of names.

    Args:
        refused: place in the construct tree → why; not deployed at all.
        missing: accepted, but there is no such resource afterwards.
        differs: property → the resources where it was created otherwise, or cannot be read back.
        not_compared: created, but no call describes it here.
        covered_by: the tests that assert the template of this kind.
    """

    refused: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    differs: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    not_compared: dict[str, list[str]] = field(default_factory=dict)
    covered_by: dict[str, list[str]] = field(default_factory=dict)

    @property
    def kinds(self) -> set[str]:
        """All that have a gap."""
        return (
            self.refused.keys()
            | self.missing.keys()
            | self.differs.keys()
            | self.not_compared.keys()
        )


def reviewed_gaps() -> EmulatorGaps:
    """The list in the repository."""
    return EmulatorGaps(**json.loads(LIST.read_text()))


def find_gaps(deployment: Deployment, refused: list[RefusedResource]) -> EmulatorGaps:
    """Compare what was created with the templates; `covered_by` stays empty."""
    gaps = EmulatorGaps()
    for resource in refused:
        gaps.refused.setdefault(resource.kind, {})[resource.path] = resource.reason
    taken_out = {resource.path for resource in refused}
    for stack, template in deployment.assembly.templates.items():
        physical_ids = deployment.physical_ids(stack)
        for logical_id, resource in template["Resources"].items():
            if construct_path(resource) not in taken_out:
                _compare(gaps, deployment, resource, physical_ids.get(logical_id))
    return gaps


def _compare(
    gaps: EmulatorGaps, deployment: Deployment, resource: Mapping[str, Any], physical_id: str | None
) -> None:
    kind, path = resource["Type"], construct_path(resource)
    if physical_id is None:
        gaps.missing.setdefault(kind, []).append(path)
        return
    created = created_properties(deployment.aws, kind, physical_id)
    if created is None:
        gaps.not_compared.setdefault(kind, []).append(path)
        return
    for place in sorted({*differences(_comparable(resource), created), *_unreadable(resource)}):
        gaps.differs.setdefault(kind, {}).setdefault(place, []).append(path)


def _comparable(resource: Mapping[str, Any]) -> dict[str, Any]:
    # Tags are left out: each service gives them back in its own way, and
    # `test_everything_is_tagged` has them.
    left_out = {"Tags", *NOT_READABLE.get(resource["Type"], ())}
    return {
        name: value
        for name, value in resource.get("Properties", {}).items()
        if name not in left_out
    }


def _unreadable(resource: Mapping[str, Any]) -> Iterator[str]:
    for name in NOT_READABLE.get(resource["Type"], ()):
        if name in resource["Properties"]:
            yield name


def as_json(gaps: EmulatorGaps) -> str:
    """The list as a file, the same for the same gaps."""
    return json.dumps(vars(gaps), indent=2, sort_keys=True) + "\n"


def main() -> int:
    """Deploy and write the list."""
    with tempfile.TemporaryDirectory() as name, ministack(Path(name)) as aws:
        folder = Path(name)
        deployment = Deployment(aws, synthesize("dev", folder / "cdk.out", folder / "cdk.log"))
        refused = take_out_refused(deployment.assembly)
        deployment.deploy(folder / "cdk.log")
        gaps = find_gaps(deployment, refused)
    known = reviewed_gaps().covered_by if LIST.exists() else {}
    gaps.covered_by.update({kind: known.get(kind, []) for kind in gaps.kinds})
    LIST.write_text(as_json(gaps))
    print(
        f"{LIST.name} is written; kinds without a test: "
        f"{[k for k, tests in gaps.covered_by.items() if not tests]}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
