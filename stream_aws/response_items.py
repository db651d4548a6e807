"""Responses as DynamoDB items, both ways. Pure: the handler's store and the poll function share it.

A response is one partition: a chunk's sort key begins with its last index, so that a query from an index begins with the
chunk which holds it; the head sorts behind all chunks. The rest of a chunk is one JSON text: what writing 25 of them costs
the event loop is mostly the SDK's work on each attribute.
"""

from __future__ import annotations

import orjson

from stream_aws.attributes import Item, number, seconds, text
from stream_aws.tables import TTL_ATTRIBUTE, UNFINISHED_KEY
from stream_core.response_store import LIFETIME_SECONDS, Chunk, ResponseHead
from stream_core.stored_json import plain_entries, read_ending, read_entries

HEAD_POSITION = "~head"


def head_key(response_id: str) -> Item:
    """The key of a response's head."""
    return {"response_id": text(response_id), "position": text(HEAD_POSITION)}


def first_position(from_index: int) -> str:
    """The sort key at which a query for `from_index` and all that follows begins."""
    return f"{from_index:08d}"


def head_item(head: ResponseHead) -> Item:
    """A head that has no ending yet."""
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
    """The head that an item holds."""
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
    """A chunk; writing it again writes the same."""
    return {
        "response_id": text(chunk.response_id),
        "position": text(f"{chunk.last_index:08d}#{chunk.epoch:04d}#{chunk.first_index:08d}"),
        "entries": text(orjson.dumps([chunk.began_at, plain_entries(chunk.entries)]).decode()),
        TTL_ATTRIBUTE: seconds(chunk.began_at + LIFETIME_SECONDS),
    }


def read_chunk(item: Item) -> Chunk:
    """The chunk that an item holds."""
    _last, epoch, first = item["position"]["S"].split("#")
    began_at, plain = orjson.loads(item["entries"]["S"])
    return Chunk(item["response_id"]["S"], int(epoch), int(first), read_entries(plain), began_at)


def is_head(item: Item) -> bool:
    """Whether an item of a response is its head."""
    return bool(item["position"]["S"] == HEAD_POSITION)


def is_chunk(item: Item) -> bool:
    """Whether an item holds entries of a response."""
    return "entries" in item


def alive(item: Item | None, now: float) -> bool:
    """Whether an item is there and has not expired, deleted or not."""
    return item is not None and float(item[TTL_ATTRIBUTE]["N"]) > now
