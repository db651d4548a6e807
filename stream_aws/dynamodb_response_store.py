"""The response buffer in DynamoDB."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from botocore.exceptions import ClientError

from stream_aws import response_requests as requests
from stream_aws.dynamodb import Client, condition_failed, error_code, passes, query_all, repeated, transact
from stream_aws.response_items import (
    LIFETIME_SECONDS,
    Item,
    alive,
    chunk_item,
    ending_text,
    head_key,
    is_head,
    lease_key,
    number,
    read_chunk,
    read_head,
    seconds,
    text,
)
from stream_aws.tables import TTL_ATTRIBUTE
from stream_core.response_store import Chunk, Ending, Lease, LeaseLost, ResponseHead, StoredEntries, gapless

_logger = logging.getLogger(__name__)

MOST_CHUNKS = 25
"""What BatchWriteItem takes at once."""


class DynamoDBResponseStore:
    """See `stream_core.response_store.ResponseStore`.

    Chunks are written without a condition, 25 of any responses in one request: what fences them is their epoch, which the
    head judges when they are read. Only what happens once per response is a conditional write.

    Args:
        client: aiobotocore's, made with `client_config`.
        table: the table of responses.
        on_retry: called for each call that is made again.
    """

    def __init__(self, client: Client, table: str, on_retry: Callable[[], None]) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry

    async def append(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """See the port. Each request is made once: the caller will have more to write the next time."""
        left: list[Chunk] = []
        for first in range(0, len(chunks), MOST_CHUNKS):
            left += await self._append(chunks[first : first + MOST_CHUNKS])
        return left

    async def _append(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        try:
            # By key, since a request that names one twice is refused.
            items = {_key(item): item for item in map(chunk_item, chunks)}
            writes = [{"PutRequest": {"Item": item}} for item in items.values()]
            answer = await self._client.batch_write_item(RequestItems={self._table: writes})
        except Exception as error:
            if passes(error):
                return chunks
            if len(chunks) > 1 and _is_of_one_item(error):
                # It must not keep the others out.
                return [left for chunk in chunks for left in await self._append([chunk])]
            _logger.error("the response buffer refused a write of response %s …: %s", chunks[0].response_id, error)
            return chunks
        keys = {_key(write["PutRequest"]["Item"]) for write in answer.get("UnprocessedItems", {}).get(self._table, ())}
        return [chunk for chunk in chunks if _key(chunk_item(chunk)) in keys] if keys else ()

    async def finish(self, lease: Lease, ending: Ending, expires_at: float) -> None:
        """See the port."""
        try:
            await self._update_head(
                lease.response_id,
                f"SET ending = :ending, {TTL_ATTRIBUTE} = :expires",
                "epoch = :epoch AND #owner = :owner AND attribute_not_exists(ending)",
                {
                    ":ending": text(ending_text(ending)),
                    ":expires": seconds(expires_at),
                    ":epoch": number(lease.epoch),
                    ":owner": text(lease.owner),
                },
            )
        except ClientError as error:
            if not condition_failed(error):
                raise
            found = error.response.get("Item")
            if found is None or read_head(found).lease != lease:
                raise LeaseLost(
                    f"response {lease.response_id} has another owner now; its ending was not written"
                ) from error

    async def renew(self, owner: str, until: float) -> None:
        """See the port."""
        item = {
            **lease_key(owner),
            "owned_until": number(until),
            TTL_ATTRIBUTE: seconds(until + LIFETIME_SECONDS),
        }
        request = {
            "TableName": self._table,
            "Item": item,
            # A renewal that was held up on its way must not shorten a later one.
            "ConditionExpression": "attribute_not_exists(owned_until) OR owned_until < :until",
            "ExpressionAttributeValues": {":until": number(until)},
        }
        try:
            await repeated(lambda: self._client.put_item(**request), self._on_retry)
        except ClientError as error:
            if not condition_failed(error):
                raise

    async def take_over(self, response_id: str, owner: str, now: float) -> Lease | None:
        """See the port."""
        head = await self.head(response_id, now)
        if head is None or head.ending is not None:
            return None
        begun = head.owner == owner and head.epoch not in head.starts  # by us, and interrupted
        if head.owner == owner and not begun:
            return head.lease
        if not begun and not await self._claim(head, owner, now):
            return None
        # From here on nothing more that an earlier owner writes can count: what is there now is all there is.
        written = replace(head, epoch=max(head.starts))
        start = gapless(written, await self._chunks(response_id, 0, now), 0).next_index
        lease = Lease(response_id, owner, head.epoch if begun else head.epoch + 1)
        try:
            await self._update_head(
                response_id,
                "SET starts.#epoch = :start",
                "epoch = :epoch AND #owner = :owner AND attribute_not_exists(starts.#epoch)",
                {":start": number(start), ":epoch": number(lease.epoch), ":owner": text(owner)},
                {"#epoch": str(lease.epoch)},
            )
        except ClientError as error:
            if not condition_failed(error):
                raise
            found = error.response.get("Item")
            if found is None or read_head(found).lease != lease:
                return None  # somebody took it over from us in the meantime, or it has expired
        return lease

    async def head(self, response_id: str, now: float) -> ResponseHead | None:
        """See the port."""
        request = requests.get_head(self._table, response_id)
        answer = await repeated(lambda: self._client.get_item(**request), self._on_retry)
        item = answer.get("Item")
        return read_head(item) if alive(item, now) else None

    async def note_read(self, response_id: str, now: float) -> ResponseHead | None:
        """See the port."""
        request = requests.note_read(self._table, response_id)
        try:
            answer = await repeated(lambda: self._client.update_item(**request), self._on_retry)
        except ClientError as error:
            if condition_failed(error):
                return None
            raise
        item = answer["Attributes"]
        return read_head(item) if alive(item, now) else None

    async def entries(self, response_id: str, from_index: int, now: float) -> StoredEntries:
        """See the port."""
        chunks = await self._chunks(response_id, from_index, now)
        head = await self.head(response_id, now)
        if head is None:
            return StoredEntries(from_index, (), None)
        return gapless(head, chunks, from_index)

    async def _claim(self, head: ResponseHead, owner: str, now: float) -> bool:
        """Raise the epoch, if the owner's lease has run out and nobody was quicker."""
        lease_has_run_out = {
            "TableName": self._table,
            "Key": lease_key(head.owner),
            "ConditionExpression": "attribute_not_exists(response_id) OR owned_until <= :now",
            "ExpressionAttributeValues": {":now": number(now)},
        }
        raise_epoch = {
            "TableName": self._table,
            "Key": head_key(head.response_id),
            "UpdateExpression": "SET #owner = :owner, epoch = :next",
            "ConditionExpression": "epoch = :epoch AND attribute_not_exists(ending)",
            "ExpressionAttributeNames": {"#owner": "owner"},
            "ExpressionAttributeValues": {
                ":owner": text(owner),
                ":epoch": number(head.epoch),
                ":next": number(head.epoch + 1),
            },
        }
        actions = [{"ConditionCheck": lease_has_run_out}, {"Update": raise_epoch}]
        try:
            await transact(self._client, actions, self._on_retry)
        except ClientError as error:
            if condition_failed(error):
                return False
            raise
        return True

    async def _chunks(self, response_id: str, from_index: int, now: float) -> list[Chunk]:
        request = requests.query_from(self._table, response_id, from_index)
        items = await query_all(self._client, request, self._on_retry)
        return [read_chunk(item) for item in items if not is_head(item) and alive(item, now)]

    async def _update_head(
        self, response_id: str, update: str, condition: str, values: Item, names: dict[str, str] | None = None
    ) -> None:
        request = {
            "TableName": self._table,
            "Key": head_key(response_id),
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#owner": "owner", **(names or {})},
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        await repeated(lambda: self._client.update_item(**request), self._on_retry)


def _is_of_one_item(error: Exception) -> bool:
    """Whether it may be one item that is refused, or can't even be made; anything else concerns all alike."""
    return not isinstance(error, ClientError) or error_code(error) == "ValidationException"


def _key(item: Item) -> tuple[str, str]:
    return item["response_id"]["S"], item["position"]["S"]
