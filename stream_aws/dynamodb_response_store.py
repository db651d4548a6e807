"""The response store in DynamoDB."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace

from botocore.exceptions import ClientError

from evenflow.stream_aws import response_items as requests
from evenflow.stream_aws.attributes import Item
from evenflow.stream_aws.dynamodb import (
    Client,
    condition_failed,
    delete_all,
    error_code,
    passes,
    query_all,
    repeated,
)
from evenflow.stream_aws.dynamodb_leases import DynamoDBLeases
from evenflow.stream_aws.grouped_reads import GroupedReads
from evenflow.stream_aws.grouped_updates import GroupedUpdates
from evenflow.stream_aws.response_items import (
    alive,
    chunk_item,
    is_chunk,
    is_head,
    read_chunk,
    read_head,
)
from evenflow.stream_core.stores.response_store import (
    TEXT_FORM,
    Chunk,
    Ending,
    Lease,
    LeaseLost,
    NodeLease,
    ResponseHead,
    StoredEntries,
    StoreUnavailable,
    Unwritable,
    gapless,
)

_MOST_RECORDED_FORMS = 10_000


class DynamoDBResponseStore:
    """The response store in DynamoDB (`ResponseStore`).

    Chunks are written without a condition, 25 of any responses in one request. Their epoch fences
    them: readers compare it with the head. Only writes that happen once a response have conditions.
    One of these comes before the first chunk with parts: it notes their form in the head.

    Args:
        client: an aiobotocore client made with `client_config`.
        table: the table of responses.
        on_retry: called before each retry.
    """

    chunks_per_write = 25
    """The most that BatchWriteItem takes."""
    chunks_per_second = 2_500
    """In 100 requests."""

    def __init__(self, client: Client, table: str, on_retry: Callable[[], None]) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry
        self._leases = DynamoDBLeases(client, table, on_retry)
        self._updates = GroupedUpdates(client, on_retry)
        self._heads = GroupedReads(client, table, on_retry)
        self._recorded_forms: dict[tuple[str, int], None] = {}
        """The responses and epochs of the forms that were recorded last."""

    async def append(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        # Each request is made once: the caller will have more to write the next time.
        unwritten = await self._record_forms(chunks)
        if unwritten:
            chunks = [chunk for chunk in chunks if chunk not in unwritten]
        refused: list[tuple[Chunk, Exception]] = []
        for first in range(0, len(chunks), self.chunks_per_write):
            unwritten += await self._append(chunks[first : first + self.chunks_per_write], refused)
        if refused:
            raise Unwritable([chunk for chunk, _ in refused], unwritten) from refused[0][1]
        return unwritten

    async def _record_forms(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Record the forms of chunks. Returns the chunks that must not be written yet."""
        new = {
            (chunk.response_id, chunk.epoch): chunk
            for chunk in chunks
            if chunk.form > TEXT_FORM
            and (chunk.response_id, chunk.epoch) not in self._recorded_forms
        }
        outcomes = await asyncio.gather(*map(self._record_form, new.values()))
        failed = {key for key, is_recorded in zip(new, outcomes, strict=True) if not is_recorded}
        return [chunk for chunk in chunks if (chunk.response_id, chunk.epoch) in failed]

    async def _record_form(self, chunk: Chunk) -> bool:
        try:
            await self._updates.update(requests.note_form(self._table, chunk))
        except ClientError as error:
            if not condition_failed(error):
                raise
            # Another node owns the response now: what this one writes no longer counts.
        except StoreUnavailable:
            return False
        if len(self._recorded_forms) >= _MOST_RECORDED_FORMS:
            del self._recorded_forms[next(iter(self._recorded_forms))]
        self._recorded_forms[chunk.response_id, chunk.epoch] = None
        return True

    async def _append(
        self, chunks: Sequence[Chunk], refused: list[tuple[Chunk, Exception]]
    ) -> Sequence[Chunk]:
        try:
            # By key: a request with the same key twice is refused.
            items = {_key(item): item for item in map(chunk_item, chunks)}
            writes = [{"PutRequest": {"Item": item}} for item in items.values()]
            answer = await self._client.batch_write_item(RequestItems={self._table: writes})
        except Exception as error:
            if passes(error):
                return chunks
            if len(chunks) > 1 and _is_of_one_item(error):
                # One bad chunk must not keep the others out.
                return [
                    unwritten
                    for chunk in chunks
                    for unwritten in await self._append([chunk], refused)
                ]
            refused += [(chunk, error) for chunk in chunks]
            return ()
        keys = {
            _key(write["PutRequest"]["Item"])
            for write in answer.get("UnprocessedItems", {}).get(self._table, ())
        }
        return [chunk for chunk in chunks if _key(chunk_item(chunk)) in keys] if keys else ()

    async def finish(self, lease: Lease, ending: Ending, expires_at: float) -> None:
        request = requests.finish(self._table, lease, ending, expires_at)
        try:
            await repeated(lambda: self._client.update_item(**request), self._on_retry)
        except ClientError as error:
            if not condition_failed(error):
                raise
            stored_item = error.response.get("Item")
            if stored_item is None or read_head(stored_item).lease != lease:
                raise LeaseLost(
                    f"response {lease.response_id} has another owner; its ending was not written"
                ) from error

    async def renew(self, owner: str, until: float, address: str | None = None) -> None:
        await self._leases.renew(owner, until, address)

    async def release(self, owner: str) -> None:
        await self._leases.release(owner)

    async def declare_lost(self, lease: NodeLease) -> bool:
        return await self._leases.declare_lost(lease.owner, lease.until, lease.until)

    async def lease(self, owner: str) -> NodeLease | None:
        return await self._leases.lease(owner)

    async def leases(self) -> Sequence[NodeLease]:
        return await self._leases.leases()

    async def forget(self, owner: str) -> None:
        await self._leases.forget(owner)

    async def unfinished(self, owner: str) -> Sequence[str]:
        request = requests.query_unfinished(self._table, owner)
        return [
            item["response_id"]["S"]
            for item in await query_all(self._client, request, self._on_retry)
        ]

    async def hand_over(self, lease: Lease) -> None:
        try:
            await self._updates.update(requests.hand_over(self._table, lease))
        except ClientError as error:
            if not condition_failed(error):
                raise
            raise LeaseLost(
                f"response {lease.response_id} has another owner; nothing was changed"
            ) from error

    async def take_over(self, response_id: str, owner: str, now: float) -> StoredEntries | None:
        # Three calls: the earlier owner's lease is nearly always known to be lost.
        lost = self._leases.known_lost - {owner}
        earlier_owner = await self._claim(response_id, owner, lost, now)
        if earlier_owner is not None and earlier_owner != owner:
            if not await self._leases.declare_lost(earlier_owner, None, now):
                return None
            earlier_owner = await self._claim(response_id, owner, {earlier_owner}, now)
        if earlier_owner != owner:
            return None
        head, chunks = await self._read(response_id, 0, now)
        if head is None or head.ending is not None or head.owner != owner:
            return None
        if head.epoch in head.starts:
            return gapless(head, chunks, 0)
        return await self._begin(head, chunks, now)

    async def head(self, response_id: str, now: float) -> ResponseHead | None:
        item = await self._heads.get(requests.head_key(response_id))
        return read_head(item) if item is not None and alive(item, now) else None

    async def note_read(self, response_id: str, now: float) -> ResponseHead | None:
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
        _, chunks = await self._read(response_id, from_index, now)
        head = await self.head(response_id, now)
        if head is None:
            return StoredEntries(from_index, (), None)
        return gapless(head, chunks, from_index)

    async def delete(self, response_ids: Sequence[str]) -> None:
        for response_id in response_ids:
            request = requests.query_keys(self._table, response_id)
            keys = await query_all(self._client, request, self._on_retry)
            await delete_all(self._client, self._table, keys, self._on_retry)

    async def _claim(self, response_id: str, owner: str, lost: Set[str], now: float) -> str | None:
        """Raise the epoch if the owner is one of `lost`.

        Returns:
            The owner afterwards. None if the response has ended, or there is none.
        """
        if not lost:
            head = await self.head(response_id, now)
        else:
            try:
                await self._updates.update(
                    requests.claim(self._table, response_id, owner, lost, now)
                )
            except ClientError as error:
                if not condition_failed(error):
                    raise
                item = error.response.get("Item")
                head = read_head(item) if alive(item, now) else None
            else:
                return owner
        goes_on = head is not None and head.ending is None and head.is_readable
        return head.owner if head is not None and goes_on else None

    async def _begin(
        self, head: ResponseHead, chunks: Iterator[Chunk], now: float
    ) -> StoredEntries | None:
        """Write from which index on the entries of a claimed epoch count.

        `chunks` were read after the claim. From then on nothing that an earlier owner writes
        counts: they are all.
        """
        valid_entries = gapless(replace(head, epoch=max(head.starts)), chunks, 0)
        try:
            await self._updates.update(
                requests.begin(self._table, head.lease, valid_entries.next_index)
            )
        except ClientError as error:
            if not condition_failed(error):
                raise
            stored_item = error.response.get("Item")
            if stored_item is None or read_head(stored_item).lease != head.lease:
                return None  # another node has taken it over from us since, or it has expired
            # We have begun already without knowing: what an earlier owner wrote since doesn't
            # count.
            _, chunks = await self._read(head.response_id, 0, now)
            return gapless(read_head(stored_item), chunks, 0)
        return replace(
            valid_entries,
            head=replace(head, starts={**head.starts, head.epoch: valid_entries.next_index}),
        )

    async def _read(
        self, response_id: str, from_index: int, now: float
    ) -> tuple[ResponseHead | None, Iterator[Chunk]]:
        """The chunks from `from_index` on, and the head, which may be older than some of them.

        Chunks are decoded when they are asked for: those of a newer form can't be.
        """
        request = requests.query_from(self._table, response_id, from_index)
        items = [
            item
            for item in await query_all(self._client, request, self._on_retry)
            if alive(item, now)
        ]
        head = next((read_head(item) for item in items if is_head(item)), None)
        return head, (read_chunk(item) for item in items if is_chunk(item))


def _is_of_one_item(error: Exception) -> bool:
    """Whether the error may be about a single item, which was refused or can't be made."""
    return not isinstance(error, ClientError) or error_code(error) == "ValidationException"


def _key(item: Item) -> tuple[str, str]:
    return item["response_id"]["S"], item["position"]["S"]
