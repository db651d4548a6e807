"""The calls on the table of responses as arguments of the SDK, for asynchronous and blocking clients alike."""

from __future__ import annotations

from typing import Any

from stream_aws.response_items import HEAD_POSITION, first_position, head_key, number, text

Request = dict[str, Any]


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
