"""Whether the region has room for one more VPC, and whether CloudFront may reach into it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evenflow.infra.account.account import Account, Unanswered
from evenflow.infra.preflight.account_quotas import quota_value
from evenflow.infra.preflight.findings import Finding, bad, good, unanswered

_VPCS, _GATEWAYS = "VPCs of the region", "internet gateways of the region"
_BLOCKED = "VPC Block Public Access"


def network_findings(account: Account, vpc_name: str) -> Iterator[Finding]:
    """Whether there is room for the VPC and its gateway, and CloudFront is not blocked.

    Args:
        vpc_name: the name of the deployment's VPC, which needs no room if it exists.
    """
    try:
        vpcs = account.ask("ec2", "describe_vpcs")["Vpcs"]
    except Unanswered as error:
        yield unanswered(_VPCS, error)
        return
    own_vpc = next((vpc["VpcId"] for vpc in vpcs if _name(vpc) == vpc_name), None)
    yield _room(account, _VPCS, "L-F678F1CE", len(vpcs), is_made=own_vpc is not None)
    try:
        gateways = account.ask("ec2", "describe_internet_gateways")["InternetGateways"]
    except Unanswered as error:
        yield unanswered(_GATEWAYS, error)
    else:
        yield _room(account, _GATEWAYS, "L-A4707A72", len(gateways), is_made=own_vpc is not None)
    try:
        yield _public_access(account, own_vpc)
    except Unanswered as error:
        yield unanswered(_BLOCKED, error)


def _name(vpc: dict[str, Any]) -> str:
    names: list[str] = [tag["Value"] for tag in vpc.get("Tags", ()) if tag["Key"] == "Name"]
    return names[0] if names else ""


def _room(account: Account, name: str, code: str, used: int, *, is_made: bool) -> Finding:
    if is_made:
        return good(name, f"{used}, ours among them")
    try:
        quota = quota_value(account, "vpc", code)
    except Unanswered as error:
        return unanswered(name, error)
    usage = f"{used} of {quota:,.10g}, and one more is needed"
    if used < quota:
        return good(name, usage)
    to_do = "ask for more: Service Quotas → vpc; or delete one, such as the region's default VPC"
    return bad(name, usage, to_do)


def _public_access(account: Account, own_vpc: str | None) -> Finding:
    """Whether CloudFront reaches the VPC: Block Public Access stops VPC origins, too."""
    answer = account.ask("ec2", "describe_vpc_block_public_access_options")
    options = answer["VpcBlockPublicAccessOptions"]
    mode = options.get("InternetGatewayBlockMode", "off")
    if mode == "off":
        return good(_BLOCKED, "off")
    if own_vpc is not None and own_vpc in _excluded(account):
        return good(_BLOCKED, f"{mode}, and {own_vpc} is excluded")
    return bad(
        _BLOCKED,
        f"it is {mode}, so CloudFront does not reach the load balancer",
        "deploy the stack …-network alone, then `aws ec2 "
        f"create-vpc-block-public-access-exclusion --vpc-id {own_vpc or '<its VPC>'} "
        "--internet-gateway-exclusion-mode allow-bidirectional`",
    )


def _excluded(account: Account) -> set[str]:
    answer = account.ask("ec2", "describe_vpc_block_public_access_exclusions")
    return {
        exclusion["ResourceArn"].rpartition("/")[2]
        for exclusion in answer["VpcBlockPublicAccessExclusions"]
        if exclusion["InternetGatewayExclusionMode"] == "allow-bidirectional"
        and exclusion["State"] in ("create-complete", "update-complete")
    }
