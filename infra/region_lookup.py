"""`python -m evenflow.infra.region_lookup sa-east-1`: looks a region up, for cdk.context.json.

It needs credentials once, which may read prefix lists, zones and inference profiles. Commit the
file: a synthesis then needs no credentials.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.settings.inference_settings import BedrockSettings
from evenflow.infra.settings.regions import Region, context_key

ZONES_WITHOUT_VPC_ORIGINS = ("use1-az3", "apne1-az3")
"""Zones that CloudFront's VPC origins don't reach, as far as known here. AWS's list is on
docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/private-content-vpc-origins.html.
"""
_MOST_ZONES = 3
_CONTEXT = "cdk.context.json"


class RegionLookupError(Exception):
    """The region lacks something that an entry needs, or AWS did not answer."""


def look_up(name: str) -> Region:
    """Look the entry of a region up in the account.

    Raises:
        RegionLookupError: the region lacks something, or AWS refused to say.
    """
    account = AwsAccount(name)
    try:
        lists = _prefix_lists(account)
        zones = _zones(account)
        geography, model_regions = _profile(account)
    except AwsCallError as error:
        raise RegionLookupError(
            f"{name} could not be looked up: {error}. Check the credentials, and whether the "
            "account has opted into the region"
        ) from error
    if len(zones) < 2:
        raise RegionLookupError(
            f"{name} shows this account {', '.join(zones) or 'no zones'} that VPC origins reach, "
            "and two are needed: choose another region"
        )
    return Region(
        name=name,
        zone_ids=zones[:_MOST_ZONES],
        geography=geography,
        model_regions=model_regions,
        **lists,
    )


def _prefix_lists(account: AwsAccount) -> dict[str, str]:
    names = {
        "cloudfront": "com.amazonaws.global.cloudfront.origin-facing",
        "s3": f"com.amazonaws.{account.region}.s3",
        "dynamodb": f"com.amazonaws.{account.region}.dynamodb",
    }
    filters = [{"Name": "prefix-list-name", "Values": list(names.values())}]
    answer = account.call("ec2", "describe_managed_prefix_lists", Filters=filters)
    ids = {each["PrefixListName"]: each["PrefixListId"] for each in answer["PrefixLists"]}
    missing = [name for name in names.values() if name not in ids]
    if missing:
        raise RegionLookupError(f"{account.region} has no prefix list {', '.join(missing)}")
    return {field: ids[name] for field, name in names.items()}


def _zones(account: AwsAccount) -> tuple[str, ...]:
    filters = [{"Name": "zone-type", "Values": ["availability-zone"]}]
    answer = account.call("ec2", "describe_availability_zones", Filters=filters)
    zones = (zone["ZoneId"] for zone in answer["AvailabilityZones"] if zone["State"] == "available")
    return tuple(sorted(zone for zone in zones if zone not in ZONES_WITHOUT_VPC_ORIGINS))


def _profile(account: AwsAccount) -> tuple[str, tuple[str, ...]]:
    """The geography of the default model's profile in the region, and where it leads."""
    model = BedrockSettings().foundation_model
    for profile in _profiles(account):
        geography, _, profiled = profile["inferenceProfileId"].partition(".")
        if profiled == model and geography != "global":
            regions = {each["modelArn"].split(":")[3] for each in profile["models"]} - {""}
            return geography, tuple(sorted(regions))
    return "", ()


def _profiles(account: AwsAccount) -> Iterator[dict[str, Any]]:
    token: dict[str, str] = {}
    while True:
        page = account.call(
            "bedrock", "list_inference_profiles", typeEquals="SYSTEM_DEFINED", **token
        )
        yield from page["inferenceProfileSummaries"]
        if "nextToken" not in page:
            return
        token = {"nextToken": page["nextToken"]}


def write(region: Region, file: Path) -> None:
    """Add the entry to the file of CDK's context."""
    context = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    context[context_key(region.name)] = region.model_dump(exclude={"name"}, exclude_defaults=True)
    file.write_text(json.dumps(context, indent=2, sort_keys=True) + "\n", "utf-8")


def main() -> int:
    """Look the region up and write its entry; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m evenflow.infra.region_lookup",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("region")
    name = parser.parse_args().region
    try:
        region = look_up(name)
    except RegionLookupError as error:
        print(error, file=sys.stderr)
        return 1
    write(region, Path(_CONTEXT))
    print(f"{_CONTEXT} has {name}: zones {', '.join(region.zone_ids)}")
    if not region.geography:
        print("Bedrock has no profile of its geography: a model must be a `global.` one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
