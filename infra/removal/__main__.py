"""`python -m evenflow.infra.removal prod`: the resources that an environment left, and their cost.

It lists tables, secrets, log groups, buckets, keys and queues of the environment that no stack
owns. Without a name it is the environment that was synthesized last, with its region and
installation. `--delete` deletes them for good. `--mapping FILE` writes the file with which
`cdk import` brings those of the stack `…-data` back into it. `--cloudfront-group` deletes only the
security group that CloudFront leaves in the VPC (`make destroy` does it before the VPC).

Exit status: 0 done, 1 AWS refused something, 2 there is no such environment or no synthesis.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.account.kept_resources import (
    BUCKET,
    KEY,
    LOG_GROUP,
    QUEUE,
    SECRET,
    TABLE,
    KeptResource,
    find_kept,
)
from evenflow.infra.estimates import prices
from evenflow.infra.removal.deletion import (
    CLOUDFRONT_GROUP,
    delete,
    delete_cloudfront_group,
    queue_url,
)
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import UnknownEnvironmentError, environment
from evenflow.infra.settings.regions import UnknownRegionError
from evenflow.infra.settings.synthesized_settings import NotSynthesizedError, read_settings

_COSTS = {
    SECRET: f"${prices.SECRET_MONTH.usd:.2f} a month",
    KEY: f"${prices.KEY_MONTH.usd:.2f} a month",
    QUEUE: "nothing",
}
# The property by which CloudFormation imports a resource.
IDENTIFIERS = {
    TABLE: "TableName", SECRET: "Id", LOG_GROUP: "LogGroupName", BUCKET: "BucketName",
    KEY: "KeyId", QUEUE: "QueueUrl",
}  # fmt: skip


def as_table(resources: Sequence[KeptResource]) -> str:
    """A line for each resource, with what it costs."""
    if not resources:
        return "nothing is left that no stack owns"
    width = max(len(resource.shown_name) for resource in resources)
    return "\n".join(
        f"{resource.kind:<28} {resource.shown_name:<{width}}  {_cost(resource)}"
        for resource in resources
    )


def _cost(resource: KeptResource) -> str:
    if resource.is_scheduled:
        return "scheduled for deletion: its name is taken"
    return _COSTS.get(resource.kind, "by its size")


def import_mapping(
    account: AwsAccount, resources: Sequence[KeptResource], stack: str
) -> Mapping[str, Mapping[str, str]]:
    """What `cdk import --resource-mapping` reads for a stack: logical id → identifier.

    Raises:
        AwsCallError: AWS didn't answer a call.
    """
    return {
        resource.logical_id: {
            IDENTIFIERS[resource.kind]: queue_url(account, resource.name)
            if resource.kind == QUEUE
            else resource.name
        }
        for resource in resources
        if resource.stack == stack and resource.logical_id and not resource.is_scheduled
    }


def _run(settings: EnvironmentSettings, arguments: argparse.Namespace) -> None:
    account = AwsAccount(settings.region.name)
    if arguments.cloudfront_group:
        was_there = delete_cloudfront_group(account, f"{settings.prefix}-network")
        print(f"{CLOUDFRONT_GROUP}: {'deleted' if was_there else 'not there'}")
        return
    print(f"{settings.prefix} in {settings.region.name}:")
    resources = find_kept(account, settings)
    print(as_table(resources))
    if arguments.mapping is not None:
        mapping = import_mapping(account, resources, f"{settings.prefix}-data")
        arguments.mapping.write_text(json.dumps(mapping, indent=2), "utf-8")
        print(f"{len(mapping)} of them are in {arguments.mapping}, for `cdk import`")
    if arguments.delete:
        for resource in resources:
            delete(account, resource)
            print(f"deleted {resource.kind} {resource.shown_name}")
    elif resources:
        print("They stay. docs/runbooks/kept-resources.md: adopt them, or delete them (--delete).")


def _settings(arguments: argparse.Namespace) -> EnvironmentSettings:
    if arguments.environment is None:
        return read_settings()
    return environment(
        arguments.environment, region=arguments.region, installation=arguments.installation
    )


def main() -> int:
    """List, delete or prepare the adoption. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m evenflow.infra.removal",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "environment", nargs="?", help="dev, staging or prod; left out: what was synthesized last"
    )
    parser.add_argument("--region", default="", help="instead of us-east-1")
    parser.add_argument("--installation", default="", help="instead of evenflow")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--delete", action="store_true", help="delete all that is listed")
    actions.add_argument("--mapping", type=Path, metavar="FILE", help="write it for `cdk import`")
    actions.add_argument(
        "--cloudfront-group", action="store_true", help="delete CloudFront's security group alone"
    )
    arguments = parser.parse_args()
    if arguments.environment is None and (
        arguments.delete or arguments.region or arguments.installation
    ):
        parser.error("--delete, --region and --installation need the environment's name")
    try:
        _run(_settings(arguments), arguments)
    except (UnknownEnvironmentError, UnknownRegionError, NotSynthesizedError) as error:
        print(error, file=sys.stderr)
        return 2
    except AwsCallError as error:
        begun = "; what was deleted before stays deleted, run it again" if arguments.delete else ""
        print(f"{error}{begun}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
