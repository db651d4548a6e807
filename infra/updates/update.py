"""An update of deployed stacks: the resources that it replaces, and its conflicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evenflow.infra.updates.stacks import Stack, Stacks, referred_ids

IMMUTABLE = Path(__file__).with_name("immutable_properties.json")
"""The properties that replace a resource when changed, by type, from CloudFormation's schemas. A
test compares the file with them, and rewrites it.
"""
# Names that need not be unique.
_SHARED_NAMES = frozenset(
    ("AWS::IAM::Policy", "AWS::ApplicationAutoScaling::ScalingPolicy", "AWS::EC2::SecurityGroup")
)
_RECORD = "AWS::Route53::RecordSet"

_RULE = ("GroupId", "IpProtocol", "FromPort", "ToPort", "CidrIp")
# Places that only one resource can have.
_PLACES = {
    # A VPC takes one with private names for a service.
    "AWS::EC2::VPCEndpoint": ("VpcId", "ServiceName", "PrivateDnsEnabled"),
    "AWS::EC2::Route": ("RouteTableId", "DestinationCidrBlock"),
    "AWS::EC2::SecurityGroupIngress": (*_RULE, "SourcePrefixListId", "SourceSecurityGroupId"),
    "AWS::EC2::SecurityGroupEgress": (
        *_RULE,
        "DestinationPrefixListId",
        "DestinationSecurityGroupId",
    ),
    "AWS::ElasticLoadBalancingV2::Listener": ("LoadBalancerArn", "Port"),
    "AWS::ElasticLoadBalancingV2::ListenerRule": ("ListenerArn", "Priority"),
}


def replaced_ids(old: Stack, new: Stack) -> frozenset[str]:
    """The logical ids of resources in both templates that an update replaces."""
    replaced = frozenset[str]()
    while True:
        replaced_now = frozenset(
            logical_id
            for logical_id, resource in new.resources.items()
            if logical_id in old.resources
            and _is_replaced(old.resources[logical_id], resource, replaced)
        )
        if replaced_now == replaced:
            return replaced
        replaced = replaced_now


def _is_replaced(old: Mapping[str, Any], new: Mapping[str, Any], replaced: frozenset[str]) -> bool:
    if old["Type"] != new["Type"]:
        return True
    for path in _immutable_properties().get(new["Type"], ()):
        before, after = (_at(resource.get("Properties", {}), path) for resource in (old, new))
        if before != after or referred_ids(after) & replaced:
            return True
    return False


def _at(properties: Any, path: str) -> Any:
    for part in path.split("/"):
        if not isinstance(properties, Mapping):
            return None
        properties = properties.get(part)
    return properties


@cache
def _immutable_properties() -> Mapping[str, list[str]]:
    properties: Mapping[str, list[str]] = json.loads(IMMUTABLE.read_text("utf-8"))
    return properties


def fixed_name(resource: Mapping[str, Any]) -> str | None:
    """The name that no other resource of its type, account and region may have.

    None: AWS makes one up.
    """
    kind, properties = resource["Type"], resource.get("Properties", {})
    last = kind.rpartition("::")[2]
    for name, value in _name_properties(properties):
        if kind not in _SHARED_NAMES and (
            name == "Name" or last.endswith(name.removesuffix("Name"))
        ):
            # Records of one name have types.
            return f"{value} {properties['Type']}" if kind == _RECORD else value
    return None


def _name_properties(properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """All texts that are called names, also those in CloudFront's `…Config`."""
    for name, value in properties.items():
        if name.endswith("Name") and isinstance(value, str):
            yield name, value
        elif name.endswith("Config") and isinstance(value, Mapping):
            yield from _name_properties(value)


def place_of(resource: Mapping[str, Any]) -> str | None:
    """The place that only one resource can have, such as the port of a load balancer."""
    names = _PLACES.get(resource["Type"])
    if names is None:
        return None
    properties = resource["Properties"]
    return json.dumps({name: properties[name] for name in names if name in properties})


@dataclass(frozen=True, slots=True)
class UpdateConflict:
    """A change that an update can't make.

    Args:
        to_do: the steps to take.
        blocks: whether the update must not begin. Otherwise `to_do` is for before or after it.
    """

    stack: str
    found: str
    to_do: str
    blocks: bool = True

    def __str__(self) -> str:
        return f"{self.stack}: {self.found}\n  To do: {self.to_do}"


@dataclass(frozen=True)
class Update:
    """An update of deployed stacks to synthesized ones."""

    old: Stacks
    new: Stacks
    replaced: Mapping[str, frozenset[str]]
    """The logical ids of replaced resources, by stack."""

    @classmethod
    def between(cls, old: Stacks, new: Stacks) -> Update:
        """The update from deployed to synthesized stacks."""
        replaced = {name: replaced_ids(old[name], new[name]) for name in new if name in old}
        return cls(old, new, replaced)

    @property
    def changed_stacks(self) -> Iterator[tuple[Stack, Stack]]:
        """Each stack that exists before and after, in the order of deployment."""
        return ((self.old[name], self.new[name]) for name in self.new if name in self.old)

    def is_moved(self, stack: str, resource: Mapping[str, Any]) -> bool:
        """Whether a resource refers to a replaced one."""
        replaced = self.replaced.get(stack, frozenset[str]())
        return bool(referred_ids(resource["Properties"]) & replaced)

    def is_gone(self, stack: str, logical_id: str) -> bool:
        """Whether a resource of a deployed stack is removed or replaced."""
        if stack not in self.new:
            return False
        return logical_id not in self.new[stack].resources or logical_id in self.replaced.get(
            stack, ()
        )
