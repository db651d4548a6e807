"""Responses as DynamoDB's items, and the requests that read and write them."""

from __future__ import annotations

from collections.abc import Set
from itertools import islice
from typing import Any

import orjson

from stream_aws.attributes import Item, number, number_set, seconds, text
from stream_aws.tables import TTL_ATTRIBUTE, UNFINISHED_INDEX, UNFINISHED_KEY
from stream_core.ports.response_store import (
    LIFETIME_SECONDS,
    Chunk,
    Ending,
    Lease,
    ResponseHead,
)
from stream_core.ports.stored_json import ending_text, plain_entries, read_ending, read_entries

HEAD_POSITION = "~head"


def head_key(response_id: str) -> Item:
    """The key of a response's head."""
    return {"response_id": text(response_id), "position": text(HEAD_POSITION)}


def first_position(from_index: int) -> str:
    """The sort key at which a query for the entries from `from_index` on begins."""
    return f"{from_index:08d}"


def head_item(head: ResponseHead) -> Item:
    """The item of a head without an ending."""
    return {
        **head_key(head.response_id),
        "channel": text(head.channel),
        "message_id": text(head.message_id),
        "owner": text(head.owner),
        UNFINISHED_KEY: text(head.owner),
        "epoch": number(head.epoch),
        "starts": {"M": {str(epoch): number(start) for epoch, start in head.starts.items()}},
        "created_at": number(head.created_at),
        "polls": number(head.polls),
        TTL_ATTRIBUTE: seconds(head.expires_at),
    }


def read_head(item: Item) -> ResponseHead:
    """The head in an item."""
    return ResponseHead(
        response_id=item["response_id"]["S"],
        channel=item["channel"]["S"],
        message_id=item["message_id"]["S"],
        owner=item["owner"]["S"],
        epoch=int(item["epoch"]["N"]),
        created_at=float(item["created_at"]["N"]),
        expires_at=float(item[TTL_ATTRIBUTE]["N"]),
        starts={int(epoch): int(start["N"]) for epoch, start in item["starts"]["M"].items()},
        polls=int(item["polls"]["N"]),
        hand_overs=len(item["handed_over"]["NS"]) if "handed_over" in item else 0,
        ending=read_ending(item["ending"]["S"]) if "ending" in item else None,
    )


def chunk_item(chunk: Chunk) -> Item:
    """The item of a chunk. The same chunk always gives the same item."""
    return {
        "response_id": text(chunk.response_id),
        "position": text(f"{chunk.last_index:08d}#{chunk.epoch:04d}#{chunk.first_index:08d}"),
        "entries": text(orjson.dumps([chunk.began_at, plain_entries(chunk.entries)]).decode()),
        TTL_ATTRIBUTE: seconds(chunk.began_at + LIFETIME_SECONDS),
    }


def read_chunk(item: Item) -> Chunk:
    """The chunk in an item."""
    _last, epoch, first = item["position"]["S"].split("#")
    began_at, plain = orjson.loads(item["entries"]["S"])
    return Chunk(item["response_id"]["S"], int(epoch), int(first), read_entries(plain), began_at)


def is_head(item: Item) -> bool:
    """Whether an item of a response is its head."""
    return bool(item["position"]["S"] == HEAD_POSITION)


def is_chunk(item: Item) -> bool:
    """Whether an item of a response is a chunk."""
    return "entries" in item


def alive(item: Item | None, now: float) -> bool:
    """Whether there is an item and it has not expired, whether or not it has been deleted."""
    return item is not None and float(item[TTL_ATTRIBUTE]["N"]) > now


Request = dict[str, Any]

_MOST_OPERANDS = 100
"""The most operands of IN."""


def get_head(table: str, response_id: str) -> Request:
    """GetItem: the head."""
    return {"TableName": table, "Key": head_key(response_id), "ConsistentRead": True}


def note_read(table: str, response_id: str) -> Request:
    """UpdateItem: count a poll, and return the head. The condition fails without the response."""
    return {
        "TableName": table,
        "Key": head_key(response_id),
        "UpdateExpression": "ADD polls :one",
        "ConditionExpression": "attribute_exists(response_id)",
        "ExpressionAttributeValues": {":one": number(1)},
        "ReturnValues": "ALL_NEW",
    }


def query_from(table: str, response_id: str, from_index: int) -> Request:
    """Query: the chunks from the one with the index before `from_index` on, and then the head."""
    return {
        "TableName": table,
        "ConsistentRead": True,
        "KeyConditionExpression": "response_id = :response AND #position BETWEEN :first AND :head",
        "ExpressionAttributeNames": {"#position": "position"},
        "ExpressionAttributeValues": {
            ":response": text(response_id),
            ":first": text(first_position(max(0, from_index - 1))),
            ":head": text(HEAD_POSITION),
        },
    }


def query_keys(table: str, response_id: str) -> Request:
    """Query: the keys of a response's head and chunks."""
    return {
        "TableName": table,
        "ConsistentRead": True,
        "KeyConditionExpression": "response_id = :response",
        "ProjectionExpression": "response_id, #position",
        "ExpressionAttributeNames": {"#position": "position"},
        "ExpressionAttributeValues": {":response": text(response_id)},
    }


def query_unfinished(table: str, owner: str) -> Request:
    """Query: the keys of an owner's heads without an ending, as the index knows them."""
    return {
        "TableName": table,
        "IndexName": UNFINISHED_INDEX,
        "KeyConditionExpression": f"{UNFINISHED_KEY} = :owner",
        "ExpressionAttributeValues": {":owner": text(owner)},
    }


def claim(table: str, response_id: str, owner: str, lost: Set[str], now: float) -> Request:
    """UpdateItem: make `owner` the next owner of a response of one of `lost`.

    The condition fails if the response has ended or has another owner. The error has its head.
    """
    names = {f":lost{count}": text(name) for count, name in enumerate(islice(lost, _MOST_OPERANDS))}
    return {
        "TableName": table,
        "Key": head_key(response_id),
        "UpdateExpression": f"SET #owner = :owner, {UNFINISHED_KEY} = :owner, epoch = epoch + :one",
        "ConditionExpression": (
            f"#owner IN ({', '.join(names)}) AND attribute_not_exists(ending) AND {TTL_ATTRIBUTE} "
            "> :now"
        ),
        "ExpressionAttributeNames": {"#owner": "owner"},
        "ExpressionAttributeValues": {
            **names,
            ":owner": text(owner),
            ":one": number(1),
            ":now": number(now),
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def begin(table: str, lease: Lease, start: int) -> Request:
    """UpdateItem: the entries of the lease's epoch count from the index `start` on.

    The condition fails if the response has another owner, or the epoch has begun. The error has
    its head.
    """
    return _update_of_owner(
        table,
        lease,
        "SET starts.#epoch = :start",
        " AND attribute_not_exists(starts.#epoch)",
        values={":start": number(start)},
        names={"#epoch": str(lease.epoch)},
    )


def hand_over(table: str, lease: Lease) -> Request:
    """UpdateItem: note that the owner leaves. The condition fails if it owns it no longer."""
    # A set, so that a repetition is harmless.
    return _update_of_owner(
        table, lease, "ADD handed_over :by", values={":by": number_set(lease.epoch)}
    )


def finish(table: str, lease: Lease, ending: Ending, expires_at: float) -> Request:
    """UpdateItem: end a response.

    The condition fails if it has another owner or has ended. The error has its head.
    """
    return _update_of_owner(
        table,
        lease,
        f"SET ending = :ending, {TTL_ATTRIBUTE} = :expires REMOVE {UNFINISHED_KEY}",
        " AND attribute_not_exists(ending)",
        values={":ending": text(ending_text(ending)), ":expires": seconds(expires_at)},
    )


def _update_of_owner(
    table: str,
    lease: Lease,
    update: str,
    condition: str = "",
    *,
    values: Item,
    names: dict[str, str] | None = None,
) -> Request:
    return {
        "TableName": table,
        "Key": head_key(lease.response_id),
        "UpdateExpression": update,
        "ConditionExpression": f"epoch = :epoch AND #owner = :owner{condition}",
        "ExpressionAttributeNames": {"#owner": "owner", **(names or {})},
        "ExpressionAttributeValues": {
            **values,
            ":epoch": number(lease.epoch),
            ":owner": text(lease.owner),
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
