"""The calls on the table of responses as arguments of the SDK, for asynchronous and blocking clients alike."""

from __future__ import annotations

from collections.abc import Set
from itertools import islice
from typing import Any

from stream_aws.attributes import number, text
from stream_aws.response_items import HEAD_POSITION, first_position, head_key
from stream_aws.tables import TTL_ATTRIBUTE, UNFINISHED_INDEX, UNFINISHED_KEY

Request = dict[str, Any]

_MOST_OPERANDS = 100
"""What IN takes."""


def get_head(table: str, response_id: str) -> Request:
    """GetItem: the head as it is now."""
    return {"TableName": table, "Key": head_key(response_id), "ConsistentRead": True}


def note_read(table: str, response_id: str) -> Request:
    """UpdateItem: count a poll, and return the head. Its condition fails where there is no such response."""
    return {
        "TableName": table,
        "Key": head_key(response_id),
        "UpdateExpression": "ADD polls :one",
        "ConditionExpression": "attribute_exists(response_id)",
        "ExpressionAttributeValues": {":one": number(1)},
        "ReturnValues": "ALL_NEW",
    }


def query_from(table: str, response_id: str, from_index: int) -> Request:
    """Query: the chunks from the one that holds the index before `from_index` on, and the head behind them."""
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


def query_unfinished(table: str, owner: str) -> Request:
    """Query: the keys of the heads of an owner that have no ending, as the index knows them."""
    return {
        "TableName": table,
        "IndexName": UNFINISHED_INDEX,
        "KeyConditionExpression": f"{UNFINISHED_KEY} = :owner",
        "ExpressionAttributeValues": {":owner": text(owner)},
    }


def claim(table: str, response_id: str, owner: str, lost: Set[str], now: float) -> Request:
    """UpdateItem: `owner` is the next owner of a response that has not ended and is one of these owners', and return the
    head. Its condition fails for any other response, with the head as it is.
    """
    names = {f":lost{count}": text(name) for count, name in enumerate(islice(lost, _MOST_OPERANDS))}
    return {
        "TableName": table,
        "Key": head_key(response_id),
        "UpdateExpression": f"SET #owner = :owner, {UNFINISHED_KEY} = :owner, epoch = epoch + :one",
        "ConditionExpression": (
            f"#owner IN ({', '.join(names)}) AND attribute_not_exists(ending) AND {TTL_ATTRIBUTE} > :now"
        ),
        "ExpressionAttributeNames": {"#owner": "owner"},
        "ExpressionAttributeValues": {
            **names,
            ":owner": text(owner),
            ":one": number(1),
            ":now": number(now),
        },
        "ReturnValues": "ALL_NEW",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
