"""The entries of regions: zones, prefix lists, Bedrock's geography, prices.

None of it can be looked up without credentials, so there is a table of some regions. Any other
region needs an entry in CDK's context: by region_lookup.py, or by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

GLOBAL_REGION = "us-east-1"
"""Where CloudFront's certificates and web ACLs are, whatever the region of the rest."""
REGION_PATTERN = r"^[a-z]{2}-[a-z]+-[0-9]$"
"""The names of AWS's commercial regions."""

_PrefixList = Annotated[str, Field(pattern="^pl-[0-9a-f]+$")]


class UnknownRegionError(Exception):
    """The region has no entry, or a wrong one. The message says what an entry needs."""


class Region(BaseModel):
    """One region.

    Args:
        zone_ids: the availability zones to use, best first. Their ids are the same in every
            account, the letters of their names are not. CloudFront's VPC origins are not in every
            zone: in us-east-1 not in use1-az3.
        cloudfront: the prefix list com.amazonaws.global.cloudfront.origin-facing.
        s3, dynamodb: the prefix lists of the gateway endpoints.
        geography: the first part of the ids of Bedrock's cross-region profiles. "": there is none,
            and the model must be a `global.` one.
        model_regions: the regions to which a profile of this geography sends requests. They
            differ between models: these are Claude Haiku 4.5's.
        http_api_rate: requests a second that an account's HTTP APIs may get together.
        dearer: the prices as a multiple of us-east-1's, without the model. None: unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=REGION_PATTERN)
    zone_ids: tuple[Annotated[str, Field(pattern="^[a-z0-9]+-az[0-9]+$")], ...] = Field(
        min_length=2
    )
    cloudfront: _PrefixList
    s3: _PrefixList
    dynamodb: _PrefixList
    geography: str = ""
    model_regions: tuple[str, ...] = ()
    http_api_rate: int = Field(10_000, ge=1)
    dearer: float | None = Field(None, gt=0)


_US = ("us-east-1", "us-east-2", "us-west-2")
_EU = ("eu-central-1", "eu-north-1", "eu-south-1", "eu-south-2", "eu-west-1", "eu-west-3")

US_EAST_1 = Region(
    name="us-east-1",
    zone_ids=("use1-az1", "use1-az2", "use1-az4"),
    cloudfront="pl-3b927c52",
    s3="pl-63a5400a",
    dynamodb="pl-02cd2c6b",
    geography="us",
    model_regions=_US,
    dearer=1.0,
)
_US_WEST_2 = Region(
    name="us-west-2",
    zone_ids=("usw2-az1", "usw2-az2", "usw2-az3"),
    cloudfront="pl-82a045eb",
    s3="pl-68a54001",
    dynamodb="pl-00a54069",
    geography="us",
    model_regions=_US,
    dearer=1.0,
)
_EU_WEST_1 = Region(
    name="eu-west-1",
    zone_ids=("euw1-az1", "euw1-az2", "euw1-az3"),
    cloudfront="pl-4fa04526",
    s3="pl-6da54004",
    dynamodb="pl-6fa54006",
    geography="eu",
    model_regions=_EU,
    dearer=1.1,
)
_EU_CENTRAL_1 = Region(
    name="eu-central-1",
    zone_ids=("euc1-az1", "euc1-az2", "euc1-az3"),
    cloudfront="pl-a3a144ca",
    s3="pl-6ea54007",
    dynamodb="pl-66a5400f",
    geography="eu",
    model_regions=_EU,
    dearer=1.2,
)
REGIONS = {region.name: region for region in (US_EAST_1, _US_WEST_2, _EU_WEST_1, _EU_CENTRAL_1)}


def context_key(name: str) -> str:
    """The key in CDK's context of the entry of a region."""
    return f"evenflow:region:{name}"


def region_named(name: str, context: Mapping[str, Any] | None = None) -> Region:
    """The entry of a region: from the context, else from the table.

    Args:
        context: CDK's. An entry in it is an object, or its JSON.

    Raises:
        UnknownRegionError: there is none, or the context's is invalid.
    """
    entry = (context or {}).get(context_key(name))
    if entry:
        return _parsed(name, entry)
    if name in REGIONS:
        return REGIONS[name]
    raise UnknownRegionError(
        f"the region {name!r} is not in infra/settings/regions.py, which has {', '.join(REGIONS)}. "
        f"`python -m evenflow.infra.region_lookup {name}` asks your account for its entry, and "
        f"writes it into cdk.context.json. {_needs(name)}"
    )


def _parsed(name: str, entry: Any) -> Region:
    try:
        fields = json.loads(entry) if isinstance(entry, str) else entry
        return Region.model_validate({"name": name, **fields})
    except (ValidationError, ValueError, TypeError) as error:
        raise UnknownRegionError(
            f"the context {context_key(name)!r} is no entry of a region: {error}. {_needs(name)}"
        ) from error


def _needs(name: str) -> str:
    return (
        f"By hand it is the key {context_key(name)!r} of CDK's context, or a Region in Python. "
        "An entry needs zone_ids that CloudFront's VPC origins reach (aws ec2 "
        "describe-availability-zones), the prefix lists cloudfront, s3 and dynamodb (aws ec2 "
        "describe-managed-prefix-lists) and, for a model of Bedrock, geography and model_regions "
        "of its profile (aws bedrock get-inference-profile). The region must have interface "
        "endpoints for ECR, CloudWatch, Secrets Manager, ECS, SQS and the model (aws ec2 "
        "describe-vpc-endpoint-services)"
    )
