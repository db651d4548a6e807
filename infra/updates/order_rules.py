"""Rules on the order: a stack is deployed while others still use what it changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

from evenflow.infra.updates.data_rules import KEPT_TYPES
from evenflow.infra.updates.stacks import Stack, Stacks, referred_ids
from evenflow.infra.updates.update import Update, UpdateConflict

_VPC_ORIGIN = "AWS::CloudFront::VpcOrigin"
_SUBNET = "AWS::EC2::Subnet"
_LISTENER = "AWS::ElasticLoadBalancingV2::Listener"
_SECOND_INSTALLATION = (
    "undo the change. To have it, make an installation beside this one (INSTALLATION=), move over, "
    "and destroy this one"
)
# `{{resolve:secretsmanager:<arn>:SecretString:<entry>::}}`
_EDGE_KEY = re.compile(r":SecretString:([a-z0-9-]+):")


def exports_in_use(update: Update) -> Iterator[UpdateConflict]:
    """An export that a deployed stack imports is neither removed nor changed.

    CloudFormation's guide, Fn::ImportValue: "You can't modify or remove an output value that is
    referenced by another stack."
    """
    for old, new in update.changed_stacks:
        for name, value in old.exports.items():
            importers = [stack.name for stack in update.old.values() if name in stack.imports]
            source = referred_ids(value)
            if not importers or any(_is_lost(update, old, logical_id) for logical_id in source):
                continue
            if source & update.replaced[old.name]:
                yield UpdateConflict(
                    old.name,
                    f"{', '.join(sorted(source))} would be replaced, and is imported by "
                    f"{', '.join(importers)}",
                    _SECOND_INSTALLATION,
                )
            elif name not in new.exports:
                yield UpdateConflict(
                    old.name,
                    f"the export {name} would go, and is imported by {', '.join(importers)}",
                    _without_import(update.new, importers),
                )


def _is_lost(update: Update, stack: Stack, logical_id: str) -> bool:
    """Whether it has data and would go, which another rule reports."""
    kind = stack.resources.get(logical_id, {}).get("Type")
    return kind in KEPT_TYPES and update.is_gone(stack.name, logical_id)


def _without_import(new: Stacks, importers: list[str]) -> str:
    steps = [f"delete the stack {name}, which is not needed any more" for name in importers
             if name not in new]  # fmt: skip
    if kept := [name for name in importers if name in new]:
        steps.append(
            f"`cdk deploy --app cdk.out --exclusively {' '.join(kept)}`, which lets go of it"
        )
    return f"{', then '.join(steps)}; then deploy all"


def origins_in_use(update: Update) -> Iterator[UpdateConflict]:
    """A VPC origin and its tags are not changed.

    CloudFront's API, UpdateVpcOrigin: CannotUpdateEntityWhileInUse. That it holds for tags is from
    aws-cdk #34629 and #35765.
    """
    for old, new in update.changed_stacks:
        before = old.of_type(_VPC_ORIGIN)
        for logical_id, origin in new.of_type(_VPC_ORIGIN).items():
            if logical_id in before and (before[logical_id] != origin or old.tags != new.tags):
                yield UpdateConflict(
                    old.name,
                    f"the VPC origin {logical_id} would be changed while the distribution uses it, "
                    "which CloudFront refuses",
                    "give the changed one another name and construct id, so that both exist; tag "
                    "neither it nor its stack",
                )


def origins_reachable(update: Update) -> Iterator[UpdateConflict]:
    """The port and the certificate that CloudFront uses stay until it uses others."""
    if not any(old.of_type(_LISTENER) for old, _ in update.changed_stacks):
        return
    for old in update.old.values():
        for origin in old.of_type(_VPC_ORIGIN).values():
            config = origin["VpcOriginEndpointConfig"]
            is_tls = config["OriginProtocolPolicy"] == "https-only"
            port = config.get("HTTPSPort", 443) if is_tls else config.get("HTTPPort", 80)
            if port not in _open_ports(update.new):
                yield UpdateConflict(
                    old.name,
                    f"the load balancer would not listen on port {port} any more while CloudFront "
                    "uses it",
                    _first_http("remove the domain")
                    if is_tls
                    else "undo the change: the listener for HTTP and its rule are always there",
                )
            elif is_tls and (names := _addresses(old) - _certified_names(update.new)):
                yield UpdateConflict(
                    old.name,
                    f"the load balancer would show a certificate that is not for "
                    f"{', '.join(sorted(names))}, which CloudFront asks for until it is deployed",
                    _first_http("change the domain and set it to True again"),
                )


def _first_http(then: str) -> str:
    return (
        "first deploy edge.tls_to_balancer=False, with which CloudFront speaks HTTP with the load "
        f"balancer, then {then}"
    )


def _open_ports(stacks: Stacks) -> frozenset[int]:
    """The ports of listeners that security groups open to CloudFront's prefix list."""
    listened, allowed = set[int](), set[int]()
    for stack in stacks.values():
        listened |= {listener["Port"] for listener in stack.of_type(_LISTENER).values()}
        allowed |= {
            port
            for rule in stack.of_type("AWS::EC2::SecurityGroupIngress").values()
            if "SourcePrefixListId" in rule
            for port in range(rule["FromPort"], rule["ToPort"] + 1)
        }
    return frozenset(listened & allowed)


def _addresses(stack: Stack) -> frozenset[str]:
    """The distribution's own names."""
    return frozenset(
        alias
        for distribution in stack.of_type("AWS::CloudFront::Distribution").values()
        for alias in distribution["DistributionConfig"].get("Aliases", ())
    )


def _certified_names(stacks: Stacks) -> frozenset[str]:
    """The names of certificates in the stacks that have listeners."""
    return frozenset(
        certificate["DomainName"]
        for stack in stacks.values()
        if stack.of_type(_LISTENER)
        for certificate in stack.of_type("AWS::CertificateManager::Certificate").values()
    )


def subnets_moved(update: Update) -> Iterator[UpdateConflict]:
    """A new subnet doesn't overlap an old one, which is deleted only afterwards.

    EC2's API, CreateSubnet: InvalidSubnet.Conflict.
    """
    for old, new in update.changed_stacks:
        replaced = update.replaced[old.name]
        before = old.of_type(_SUBNET)
        for logical_id, subnet in new.of_type(_SUBNET).items():
            if logical_id in before and logical_id not in replaced:
                continue
            for other_id, other in before.items():
                if _overlap(subnet, other):
                    yield UpdateConflict(
                        old.name,
                        f"the new subnet {logical_id} would have addresses of {other_id} "
                        f"({other['CidrBlock']}), which is still there",
                        _SECOND_INSTALLATION,
                    )


def _overlap(subnet: dict[str, Any], other: dict[str, Any]) -> bool:
    return IPv4Network(subnet["CidrBlock"]).overlaps(IPv4Network(other["CidrBlock"]))


def first_edge_key(update: Update) -> Iterator[UpdateConflict]:
    """CloudFront shows an edge key that is in the secret."""
    before, after = _edge_key(update.old), _edge_key(update.new)
    if after is None or before == after:
        return
    stack, key = after
    if before is None:
        entries = {
            secret["GenerateSecretString"]["GenerateStringKey"]
            for new in update.new.values()
            for secret in new.of_type("AWS::SecretsManager::Secret").values()
        }
        if key not in entries:
            yield UpdateConflict(
                stack,
                f"the secret of the edge keys would not have {key!r}, and the deployment would "
                "fail at its end",
                "deploy without edge.edge_key first, and change it as "
                "docs/runbooks/signing-keys.md says",
            )
    else:
        yield UpdateConflict(
            stack,
            f"CloudFront would show the key {key!r} instead of {before[1]!r}",
            f"before it, {key!r} must have been in the secret for five minutes beside "
            f"{before[1]!r} (docs/runbooks/signing-keys.md); without it CloudFormation refuses",
            blocks=False,
        )


def _edge_key(stacks: Stacks) -> tuple[str, str] | None:
    """The stack of the distribution, and the entry that it shows."""
    for stack in stacks.values():
        distributions = stack.of_type("AWS::CloudFront::Distribution")
        if found := _EDGE_KEY.search(json.dumps(distributions)):
            return stack.name, found[1]
    return None


def orphaned_stacks(update: Update) -> Iterator[UpdateConflict]:
    """A deployed stack that is no longer synthesized stays, and goes on costing."""
    for stack in update.old.values():
        if stack.name in update.new:
            continue
        command = f"--stack-name {stack.name} --region {stack.region}"
        steps = [f"aws cloudformation delete-stack {command}"]
        if stack.is_protected:
            steps.insert(
                0,
                "aws cloudformation update-termination-protection "
                f"--no-enable-termination-protection {command}",
            )
        yield UpdateConflict(
            stack.name,
            "it is not part of the environment any more, stays, and goes on costing",
            f"after the deployment: {'; '.join(f'`{step}`' for step in steps)}",
            blocks=False,
        )
