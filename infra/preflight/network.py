"""Whether the region has room for a VPC, and CloudFront for a distribution and its policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.preflight.account_quotas import quota_value
from evenflow.infra.preflight.findings import PreflightFinding, bad, good, unanswered, warning
from evenflow.infra.settings.regions import GLOBAL_REGION

_VPCS, _GATEWAYS = "VPCs of the region", "internet gateways of the region"
_BLOCKED = "VPC Block Public Access"


def network_findings(account: AwsAccount, vpc_name: str) -> Iterator[PreflightFinding]:
    """Check that there is room for the VPC and its gateway, and CloudFront is not blocked.

    Args:
        vpc_name: the name of the deployment's VPC, which needs no room if it exists.
    """
    try:
        vpcs = account.call("ec2", "describe_vpcs")["Vpcs"]
    except AwsCallError as error:
        yield unanswered(_VPCS, error)
        return
    own_vpc = next((vpc["VpcId"] for vpc in vpcs if _name(vpc) == vpc_name), None)
    yield _room(account, _VPCS, "L-F678F1CE", len(vpcs), is_made=own_vpc is not None)
    try:
        gateways = account.call("ec2", "describe_internet_gateways")["InternetGateways"]
    except AwsCallError as error:
        yield unanswered(_GATEWAYS, error)
    else:
        yield _room(account, _GATEWAYS, "L-A4707A72", len(gateways), is_made=own_vpc is not None)
    try:
        yield _public_access(account, own_vpc)
    except AwsCallError as error:
        yield unanswered(_BLOCKED, error)


def _name(vpc: dict[str, Any]) -> str:
    names: list[str] = [tag["Value"] for tag in vpc.get("Tags", ()) if tag["Key"] == "Name"]
    return names[0] if names else ""


def _room(
    account: AwsAccount, name: str, code: str, used: int, *, is_made: bool
) -> PreflightFinding:
    if is_made:
        return good(name, f"{used}, ours among them")
    try:
        quota = quota_value(account, "vpc", code)
    except AwsCallError as error:
        return unanswered(name, error)
    usage = f"{used} of {quota:,.10g}, and one more is needed"
    if used < quota:
        return good(name, usage)
    to_do = "ask for more: Service Quotas → vpc; or delete one, such as the region's default VPC"
    return bad(name, usage, to_do)


def _public_access(account: AwsAccount, own_vpc: str | None) -> PreflightFinding:
    """Whether CloudFront reaches the VPC: Block Public Access stops VPC origins, too."""
    answer = account.call("ec2", "describe_vpc_block_public_access_options")
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


def _excluded(account: AwsAccount) -> set[str]:
    answer = account.call("ec2", "describe_vpc_block_public_access_exclusions")
    return {
        exclusion["ResourceArn"].rpartition("/")[2]
        for exclusion in answer["VpcBlockPublicAccessExclusions"]
        if exclusion["InternetGatewayExclusionMode"] == "allow-bidirectional"
        and exclusion["State"] in ("create-complete", "update-complete")
    }


_VERIFIED = "CloudFront, verified account"
_PAGE = "docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cloudfront-limits.html"


@dataclass(frozen=True, slots=True)
class EdgeQuota:
    """A quota of CloudFront that each deployment uses.

    Args:
        answer: the key of the list in the call's answer.
        config: the keys that lead to the part of an item with its name.
        needed: the number that a deployment makes.
        quota: AWS's default. The account's own may be higher, and is not looked up.
    """

    name: str
    kind: str
    operation: str
    answer: str
    config: tuple[str, ...]
    needed: int
    quota: int = 20


EDGE_QUOTAS = (
    EdgeQuota(
        "CloudFront cache policies",
        "AWS::CloudFront::CachePolicy",
        "list_cache_policies",
        "CachePolicyList",
        ("CachePolicy", "CachePolicyConfig"),
        needed=2,
    ),
    EdgeQuota(
        "CloudFront response headers policies",
        "AWS::CloudFront::ResponseHeadersPolicy",
        "list_response_headers_policies",
        "ResponseHeadersPolicyList",
        ("ResponseHeadersPolicy", "ResponseHeadersPolicyConfig"),
        needed=2,
    ),
    EdgeQuota(
        "CloudFront origin request policies",
        "AWS::CloudFront::OriginRequestPolicy",
        "list_origin_request_policies",
        "OriginRequestPolicyList",
        ("OriginRequestPolicy", "OriginRequestPolicyConfig"),
        needed=1,
    ),
    EdgeQuota(
        "CloudFront VPC origins",
        "AWS::CloudFront::VpcOrigin",
        "list_vpc_origins",
        "VpcOriginList",
        (),
        needed=1,
        quota=25,
    ),
)


def edge_findings(account: AwsAccount, prefix: str) -> Iterator[PreflightFinding]:
    """Check that CloudFront accepts a distribution of the account, and has room for its parts.

    Args:
        prefix: the beginning of the names of the deployment's own policies, which need no room.
    """
    try:
        yield _verified(account)
    except AwsCallError as error:
        yield unanswered(_VERIFIED, error)
    for quota in EDGE_QUOTAS:
        try:
            yield _quota_room(quota, [*_names(account, quota)], prefix)
        except AwsCallError as error:
            yield unanswered(quota.name, error)


def _verified(account: AwsAccount) -> PreflightFinding:
    """Whether the account is verified: no call says so, but a distribution proves it."""
    answer = account.call("cloudfront", "list_distributions", region=GLOBAL_REGION, MaxItems="1")
    if answer["DistributionList"].get("Items"):
        return good(_VERIFIED, "it has distributions already")
    return warning(
        _VERIFIED,
        "it has no distribution yet, and CloudFront refuses those of some new accounts",
        'if the stack …-edge fails with "Your account must be verified", open a case at AWS '
        "Support with that sentence, and deploy again when it is answered",
    )


def _names(account: AwsAccount, quota: EdgeQuota) -> Iterator[str]:
    filters: dict[str, str] = {"Type": "custom"} if quota.config else {}
    while True:
        answer = account.call("cloudfront", quota.operation, region=GLOBAL_REGION, **filters)
        page = answer[quota.answer]
        for item in page.get("Items", ()):
            config: Any = item
            for key in quota.config:
                config = config[key]
            yield config["Name"]
        if not page.get("NextMarker"):
            return
        filters["Marker"] = page["NextMarker"]


def _quota_room(quota: EdgeQuota, names: list[str], prefix: str) -> PreflightFinding:
    own_count = sum(name == prefix or name.startswith(f"{prefix}-") for name in names)
    needed = max(quota.needed - own_count, 0)
    usage = f"{len(names)}, and {needed} more are needed (AWS's default is {quota.quota})"
    if len(names) + needed <= quota.quota:
        return good(quota.name, usage)
    return warning(
        quota.name,
        usage,
        f"look whether yours was raised, else ask for more: Service Quotas → CloudFront ({_PAGE})",
    )
