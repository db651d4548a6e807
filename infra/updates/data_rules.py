"""Rules on stored data (tables, secrets, keys, buckets, queues, logs) and on fixed names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evenflow.infra.updates.stacks import referred_ids
from evenflow.infra.updates.update import Update, UpdateConflict, fixed_name, place_of

# Types that hold data; and the distribution, since users know its address.
KEPT_TYPES = {
    "AWS::DynamoDB::Table": "what is in the table",
    "AWS::SecretsManager::Secret": "the keys in the secret",
    "AWS::KMS::Key": "everything that the key has encrypted",
    "AWS::S3::Bucket": "what is in the bucket",
    "AWS::SQS::Queue": "the letters in the queue",
    "AWS::CloudFront::Distribution": "the address that users know",
}
_SECRET_VALUES = ("GenerateSecretString", "SecretString")
_KEY = "AWS::KMS::Key"


def lost_data(update: Update) -> Iterator[UpdateConflict]:
    """Data is not removed or replaced: with `Delete` it is lost, with `Retain` unused."""
    for old, _ in update.changed_stacks:
        for logical_id, resource in old.resources.items():
            content = KEPT_TYPES.get(resource["Type"])
            if content is None or not update.is_gone(old.name, logical_id):
                continue
            yield UpdateConflict(
                old.name,
                f"{_label(logical_id, resource)} would go, and {content}",
                _to_keep(resource),
            )


def _to_keep(resource: dict[str, Any]) -> str:
    if resource["Type"] == _KEY:
        return (
            'the key stays: set data.customer_key="allowed", with which nothing new is encrypted '
            "with it, and what it has encrypted can be read"
        )
    return (
        "undo the change. To have it, make an installation beside this one (INSTALLATION=), move "
        "the data, and destroy this one"
    )


def new_key(update: Update) -> Iterator[UpdateConflict]:
    """Data is not encrypted with a key before roles may use the key.

    Tables, queues and secrets use the key with the caller's rights, and the roles' stacks are
    deployed after that of the data.
    """
    for old, new in update.changed_stacks:
        new_keys = new.of_type(_KEY).keys() - old.of_type(_KEY).keys()
        users = [
            logical_id
            for logical_id, resource in new.resources.items()
            if resource["Type"] in KEPT_TYPES
            and logical_id in old.resources
            and referred_ids(resource["Properties"]) & new_keys
        ]
        if users:
            yield UpdateConflict(
                old.name,
                f"{len(users)} tables, secrets and the like would be encrypted with a key that the "
                "tasks and functions may not use yet: their calls would fail until their stacks "
                "are deployed",
                'first deploy data.customer_key="allowed", then data.customer_key=True',
            )


def new_secret_values(update: Update) -> Iterator[UpdateConflict]:
    """A secret's generator is not changed.

    CloudFormation, AWS::SecretsManager::Secret, GenerateSecretString and SecretString: "When you
    make a change to this property, a new secret version is created."
    """
    for old, new in update.changed_stacks:
        before = old.of_type("AWS::SecretsManager::Secret")
        for logical_id, secret in new.of_type("AWS::SecretsManager::Secret").items():
            old_secret = before.get(logical_id)
            if old_secret is not None and any(
                old_secret.get(value) != secret.get(value) for value in _SECRET_VALUES
            ):
                yield UpdateConflict(
                    old.name,
                    f"{secret.get('Name', logical_id)} would get a new random value, and the keys "
                    "in it would be gone",
                    "undo the change of GenerateSecretString, and edit the secret's value instead",
                )


def names_twice(update: Update) -> Iterator[UpdateConflict]:
    """No name and no place is taken twice: a new resource is made before the old one goes."""
    holders = {
        (resource["Type"], name): (stack.name, logical_id)
        for stack in update.old.values()
        for logical_id, resource in stack.resources.items()
        if (name := fixed_name(resource) or place_of(resource)) is not None
    }
    for stack in update.new.values():
        for logical_id, resource in stack.resources.items():
            name = fixed_name(resource) or place_of(resource)
            holder = holders.get((resource["Type"], name or ""))
            if holder is None or resource["Type"] in KEPT_TYPES:
                continue
            if holder == (stack.name, logical_id) and not update.is_gone(*holder):
                continue
            if place_of(resource) is not None and update.is_moved(stack.name, resource):
                continue
            yield UpdateConflict(
                stack.name,
                f"{_label(logical_id, resource)} would be made while {' '.join(holder)} has its "
                "name or place",
                "deploy once without it and then with it, or give the new one another name",
            )


def retained_names(update: Update) -> Iterator[UpdateConflict]:
    """What is retained when it is removed goes on existing, and keeps its name from a new one."""
    for old, new in update.changed_stacks:
        for logical_id, resource in old.resources.items():
            if logical_id in new.resources or resource["Type"] in KEPT_TYPES:
                continue
            name = fixed_name(resource)
            if name is not None and resource.get("DeletionPolicy", "Delete") != "Delete":
                yield UpdateConflict(
                    old.name,
                    f"{_label(logical_id, resource)} is no longer in the template, and stays",
                    "delete it if it is not needed. While it is there, a deployment that makes "
                    "it again needs `cdk deploy --import-existing-resources`",
                    blocks=False,
                )


def lower_throughput(update: Update) -> Iterator[UpdateConflict]:
    """Warm throughput is not lowered.

    DynamoDB's guide, "Understanding DynamoDB warm throughput": "Once increased, warm throughput
    values can't be decreased."
    """
    for old, new in update.changed_stacks:
        before = old.of_type("AWS::DynamoDB::Table")
        for logical_id, table in new.of_type("AWS::DynamoDB::Table").items():
            warm = before.get(logical_id, {}).get("WarmThroughput", {})
            now = table.get("WarmThroughput", {})
            if any(now.get(unit, value) < value for unit, value in warm.items()):
                yield UpdateConflict(
                    old.name,
                    f"{table.get('TableName', logical_id)} would get less warm throughput, which "
                    "DynamoDB refuses",
                    f"set data.warm_writes_per_second to {warm['WriteUnitsPerSecond']} or more",
                )


def _label(logical_id: str, resource: dict[str, Any]) -> str:
    return f"{resource['Type']} {fixed_name(resource) or logical_id}"
