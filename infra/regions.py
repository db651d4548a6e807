"""The regions that Evenflow can be deployed to, and what differs between them.

None of it can be looked up without credentials, so it is a table.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

GLOBAL_REGION = "us-east-1"
"""Where CloudFront's certificates and web ACLs are, whatever the region of the rest."""


class UnknownRegionError(Exception):
    """The region is not in the table. The message says what an entry needs."""


class Region(BaseModel):
    """One region.

    Args:
        zone_ids: the availability zones to use, best first. Their ids are the same in every
            account, the letters of their names are not. CloudFront's VPC origins are not in every
            zone: in us-east-1 not in use1-az3.
        cloudfront: the prefix list com.amazonaws.global.cloudfront.origin-facing.
        s3, dynamodb: the prefix lists of the gateway endpoints.
        geography: that of Bedrock's cross-region profiles: the first part of their ids.
        model_regions: those that a profile of this geography sends requests to. It is different
            for each model: these are Claude Haiku 4.5's.
        http_api_rate: requests a second that an account's HTTP APIs may get together.
        dearer: about how many times the prices of us-east-1, without the model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    zone_ids: tuple[str, ...]
    cloudfront: str
    s3: str
    dynamodb: str
    geography: str
    model_regions: tuple[str, ...]
    http_api_rate: int = 10_000
    dearer: float = 1.0


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
)
_US_WEST_2 = Region(
    name="us-west-2",
    zone_ids=("usw2-az1", "usw2-az2", "usw2-az3"),
    cloudfront="pl-82a045eb",
    s3="pl-68a54001",
    dynamodb="pl-00a54069",
    geography="us",
    model_regions=_US,
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


def region_named(name: str) -> Region:
    """The entry of a region.

    Raises:
        UnknownRegionError: the table has no such region.
    """
    if name in REGIONS:
        return REGIONS[name]
    raise UnknownRegionError(
        f"the region {name!r} is not in infra/regions.py, which has {', '.join(REGIONS)}. An entry "
        "needs zones that CloudFront's VPC origins reach (aws ec2 describe-availability-zones), "
        "the prefix lists of CloudFront, S3 and DynamoDB (aws ec2 describe-managed-prefix-lists), "
        "interface endpoints for ECR, CloudWatch, Secrets Manager, ECS, SQS and the model (aws ec2 "
        "describe-vpc-endpoint-services), and the regions of a Bedrock profile of its geography "
        "(aws bedrock get-inference-profile)"
    )
