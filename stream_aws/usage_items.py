"""The rows of what tenants have reserved and used, as DynamoDB's items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

import orjson

from evenflow.stream_aws.attributes import Item, number, seconds, text
from evenflow.stream_aws.tables import TTL_ATTRIBUTE
from evenflow.stream_core.tenants.budget import (
    Reservation,
    ReservationRequest,
    day_of,
    digest_of_user,
)
from evenflow.stream_core.tenants.usage import COUNTS, DayTotals, UsageRecord

RESERVED = "reserved#"
"""The beginning of rows of reservations: an answer's id follows."""

COUNTER = "counter#"
"""The beginning of counters' rows. A counter's name follows."""

USAGE_PARTITIONS = 8
"""Partitions of a tenant's usage, beside its own. Each takes 1,000 write units a second, some 450
answers. A change needs a move of all rows (decision 0078).
"""
TOTALS_SHARDS = 64
"""The most rows of a total. A node writes one of them, so nodes seldom conflict."""

_DAY_SECONDS = 86_400.0


def first_of_records(day: str, user: str | None = None) -> str:
    """The beginning of the rows of a day's records, or of one user's."""
    return f"used#{day}#" if user is None else f"used#{day}#{digest_of_user(user)}#"


def keys_of_record(record: UsageRecord) -> list[Item]:
    """Where the record is, or where one is that it replaces: an answer may end after midnight."""
    days = [record.day]
    if record.epoch > 1:
        days.append(day_of(record.ended_at - _DAY_SECONDS))
    number = crc32(record.response_id.encode()) % USAGE_PARTITIONS
    partition = usage_partitions(record.tenant)[number]
    return [
        key_of(partition, first_of_records(day, record.user) + record.response_id) for day in days
    ]


def usage_partitions(tenant: str) -> list[str]:
    """The partitions of a tenant's records and totals. No tenant's name has a `#`."""
    return [f"{tenant}#{number}" for number in range(USAGE_PARTITIONS)]


def first_of_totals(day: str) -> str:
    """The beginning of the rows of a day's totals: a shard and a model's name follow."""
    return f"total#{day}#"


def key_of(partition: str, row: str) -> Item:
    """The key of a row."""
    return {"tenant": text(partition), "row": text(row)}


def rows_request(
    table: str, partition: str, condition: str, values: Mapping[str, str]
) -> dict[str, Any]:
    """The Query of a partition's rows.

    Args:
        condition: of the key `#row`.
        values: of the names in it.
    """
    return {
        "TableName": table,
        "KeyConditionExpression": f"tenant = :tenant AND {condition}",
        "ExpressionAttributeNames": {"#row": "row"},
        "ExpressionAttributeValues": {
            ":tenant": text(partition),
            **{name: text(value) for name, value in values.items()},
        },
    }


def rows_beginning(table: str, partition: str, first: str) -> dict[str, Any]:
    """The Query of a partition's rows with names that begin with `first`."""
    return rows_request(table, partition, "begins_with(#row, :first)", {":first": first})


def record_in(item: Item) -> UsageRecord:
    """The record in an item."""
    return UsageRecord.from_text(item["record"]["S"])


def amounts_of(item: Item | None, attribute: str) -> dict[str, int] | None:
    """Amounts by counter. None where there is no item."""
    return None if item is None else orjson.loads(item[attribute]["S"])


def reservation_of(item: Item) -> Reservation:
    """The reservation in an item."""
    return Reservation(
        item["tenant"]["S"],
        item["row"]["S"].removeprefix(RESERVED),
        item["owner"]["S"],
        float(item["created_at"]["N"]),
        orjson.loads(item["amounts"]["S"]),
        int(item["step"]["N"]),
    )


def totals_in(item: Item) -> DayTotals:
    """The totals in an item."""
    _, day, _, model = item["row"]["S"].split("#", 3)
    return DayTotals(day, model, **{name: int(item[name]["N"]) for name in COUNTS})


def put_reservation(table: str, ask: ReservationRequest) -> Item:
    """The action that makes a reservation, or lets it grow."""
    reservation = ask.wanted
    action: dict[str, Any] = {
        "TableName": table,
        "Item": key_of(reservation.tenant, RESERVED + reservation.response_id)
        | {
            "owner": text(reservation.owner),
            "created_at": number(reservation.created_at),
            "amounts": text(orjson.dumps(dict(reservation.amounts)).decode()),
            "step": number(reservation.step),
        },
        "ExpressionAttributeNames": {"#step": "step"},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    if ask.before is None:
        action["ConditionExpression"] = "attribute_not_exists(#step)"
    else:
        action["ConditionExpression"] = "#step = :before"
        action["ExpressionAttributeValues"] = {":before": number(ask.before.step)}
    return {"Put": action}


def delete_reservation(table: str, item: Item) -> Item:
    """The action that deletes a reservation, if it is as it was read."""
    return {
        "Delete": {
            "TableName": table,
            "Key": {name: item[name] for name in ("tenant", "row")},
            "ConditionExpression": "#step = :step",
            "ExpressionAttributeNames": {"#step": "step"},
            "ExpressionAttributeValues": {":step": item["step"]},
        }
    }


def put_record(
    table: str,
    record: UsageRecord,
    counted_amounts: Mapping[str, int],
    before: Item | None,
    expires_at: float,
) -> Item:
    """The action that writes a record, if the one that it replaces is as it was read."""
    action: dict[str, Any] = {
        "TableName": table,
        "Item": keys_of_record(record)[0]
        | {
            "epoch": number(record.epoch),
            "record": text(record.to_text()),
            "counted": text(orjson.dumps(dict(counted_amounts)).decode()),
            TTL_ATTRIBUTE: seconds(expires_at),
        },
        "ExpressionAttributeNames": {"#epoch": "epoch"},
    }
    if before is None:
        action["ConditionExpression"] = "attribute_not_exists(#epoch)"
    else:
        action["ConditionExpression"] = "#epoch = :before"
        action["ExpressionAttributeValues"] = {":before": before["epoch"]}
    return {"Put": action}


def add_to_totals(table: str, tenant: str, shard: int, added: DayTotals, expires_at: float) -> Item:
    """The action that adds to one of the rows of the totals of a day and model."""
    partition = usage_partitions(tenant)[shard % USAGE_PARTITIONS]
    names = {f"#{name}": name for name in COUNTS}
    return {
        "Update": {
            "TableName": table,
            "Key": key_of(partition, f"{first_of_totals(added.day)}{shard:02}#{added.model}"),
            "UpdateExpression": "SET #expires = :expires ADD "
            + ", ".join(f"#{name} :{name}" for name in COUNTS),
            "ExpressionAttributeNames": {"#expires": TTL_ATTRIBUTE, **names},
            "ExpressionAttributeValues": {
                ":expires": seconds(expires_at),
                **{f":{name}": number(value) for name, value in added.counts.items()},
            },
        }
    }
