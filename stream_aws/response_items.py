"""Responses as DynamoDB's items, and the requests that read and write them."""

from __future__ import annotations

from collections.abc import Set
from itertools import islice
from typing import Any

import orjson

from evenflow.stream_aws.attributes import Item, number, number_set, seconds, text
from evenflow.stream_aws.tables import TTL_ATTRIBUTE, UNFINISHED_INDEX, UNFINISHED_KEY
from evenflow.stream_core.base.errors import written_by_newer_version
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.response_store import (
    LIFETIME_SECONDS,
    NEWEST_FORM,
    TEXT_FORM,
    Chunk,
    Ending,
    Lease,
    ResponseHead,
)
from evenflow.stream_core.stores.stored_json import (
    ending_text,
    plain_entries,
    read_ending,
    read_entries,
)

HEAD_POSITION = "~head"
# Sorts after the positions of all chunks, which begin with digits.
_BEHIND_CHUNKS = "~"
_SESSION_POLLS, _SHARE_POLLS = "session_polls", "share_polls"

# Chunks outlive the head, which expires `response_ttl_seconds` after the end, or a day after the
# start of a response that never ends. Without a head nothing is read.
_CHUNK_SECONDS = LIFETIME_SECONDS + 3_600.0

# Nodes of the version before the forms read `ending` alone. Where the entries have a newer form, it
# has this error, so that such nodes leave the response alone. The real ending is in `ended_as`.
_NOT_FOR_THEM = ending_text(
    Ending(
        ResponseState.ERROR,
        0,
        0.0,
        error=written_by_newer_version().to_object(),
    )
)
_UNFINISHED = (
    "attribute_not_exists(ended_as) AND "
    "(attribute_not_exists(ending) OR attribute_exists(entries_form))"
)


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
    form = int(item["entries_form"]["N"]) if "entries_form" in item else TEXT_FORM
    ending = item.get("ended_as", item.get("ending") if form == TEXT_FORM else None)
    return ResponseHead(
        response_id=item["response_id"]["S"],
        channel=item["channel"]["S"],
        message_id=item["message_id"]["S"],
        owner=item["owner"]["S"],
        epoch=int(item["epoch"]["N"]),
        created_at=float(item["created_at"]["N"]),
        expires_at=float(item[TTL_ATTRIBUTE]["N"]),
        starts={int(epoch): int(start["N"]) for epoch, start in item["starts"]["M"].items()},
        polls=_count(item, "polls"),
        session_polls=_count(item, _SESSION_POLLS),
        share_polls=_count(item, _SHARE_POLLS),
        hand_overs=len(item["handed_over"]["NS"]) if "handed_over" in item else 0,
        ending=read_ending(ending["S"]) if ending is not None else None,
        form=form,
    )


def _count(item: Item, name: str) -> int:
    return int(item[name]["N"]) if name in item else 0


def chunk_item(chunk: Chunk) -> Item:
    """The item of a chunk. The same chunk always gives the same item."""
    # Versions before the forms read `entries` alone, and would take parts for something else.
    name = "entries" if chunk.form == TEXT_FORM else "typed_entries"
    return {
        "response_id": text(chunk.response_id),
        "position": text(f"{chunk.last_index:08d}#{chunk.epoch:04d}#{chunk.first_index:08d}"),
        name: text(orjson.dumps([chunk.began_at, plain_entries(chunk.entries)]).decode()),
        TTL_ATTRIBUTE: seconds(chunk.began_at + _CHUNK_SECONDS),
    }


def read_chunk(item: Item) -> Chunk:
    """The chunk in an item."""
    _last, epoch, first = item["position"]["S"].split("#")
    began_at, plain = orjson.loads((item.get("entries") or item["typed_entries"])["S"])
    return Chunk(item["response_id"]["S"], int(epoch), int(first), read_entries(plain), began_at)


def is_head(item: Item) -> bool:
    """Whether an item of a response is its head."""
    return bool(item["position"]["S"] == HEAD_POSITION)


def is_chunk(item: Item) -> bool:
    """Whether an item of a response is a chunk."""
    return "entries" in item or "typed_entries" in item


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


def note_poll(table: str, response_id: str, *, shared: bool) -> Request:
    """UpdateItem: `note_read`, and count a poll that came to the function.

    Args:
        shared: whether the poll came with a share token.
    """
    request = note_read(table, response_id)
    counter = _SHARE_POLLS if shared else _SESSION_POLLS
    return {**request, "UpdateExpression": f"{request['UpdateExpression']}, {counter} :one"}


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


def query_newest(table: str, response_id: str) -> Request:
    """Query: the position of the chunk with the newest entry, of any owner."""
    return {
        "TableName": table,
        "ConsistentRead": True,
        "KeyConditionExpression": "response_id = :response AND #position < :behind",
        "ProjectionExpression": "#position",
        "ExpressionAttributeNames": {"#position": "position"},
        "ExpressionAttributeValues": {
            ":response": text(response_id),
            ":behind": text(_BEHIND_CHUNKS),
        },
        "ScanIndexForward": False,
        "Limit": 1,
    }


def last_index(item: Item) -> int:
    """The index of the last entry of a chunk, by its position."""
    return int(item["position"]["S"].partition("#")[0])


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

    The condition fails if the response has ended, has another owner or a form that this version
    can't read. The error has its head.
    """
    names = {f":lost{count}": text(name) for count, name in enumerate(islice(lost, _MOST_OPERANDS))}
    return {
        "TableName": table,
        "Key": head_key(response_id),
        "UpdateExpression": f"SET #owner = :owner, {UNFINISHED_KEY} = :owner, epoch = epoch + :one",
        "ConditionExpression": (
            f"#owner IN ({', '.join(names)}) AND {_UNFINISHED} AND {TTL_ATTRIBUTE} > :now AND "
            "(attribute_not_exists(entries_form) OR entries_form <= :form)"
        ),
        "ExpressionAttributeNames": {"#owner": "owner"},
        "ExpressionAttributeValues": {
            **names,
            ":owner": text(owner),
            ":one": number(1),
            ":now": number(now),
            ":form": number(NEWEST_FORM),
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def note_form(table: str, chunk: Chunk) -> Request:
    """UpdateItem: note the form of a chunk, before it is written.

    The condition fails if the response has another owner: then the chunk doesn't count.
    """
    return {
        "TableName": table,
        "Key": head_key(chunk.response_id),
        "UpdateExpression": (
            "SET entries_form = :form, ending = if_not_exists(ending, :not_for_them)"
        ),
        "ConditionExpression": "epoch = :epoch",
        "ExpressionAttributeValues": {
            ":form": number(chunk.form),
            ":epoch": number(chunk.epoch),
            ":not_for_them": text(_NOT_FOR_THEM),
        },
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
        f"SET ended_as = :ending, ending = if_not_exists(ending, :ending), {TTL_ATTRIBUTE} = "
        f":expires REMOVE {UNFINISHED_KEY}",
        f" AND {_UNFINISHED}",
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
