"""Reads the response store with a blocking client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from evenflow.stream_aws import response_items as requests
from evenflow.stream_aws.attributes import Item
from evenflow.stream_aws.response_items import alive, is_chunk, is_head, read_chunk, read_head
from evenflow.stream_core.base.errors import (
    Gone,
    NotFound,
    Overloaded,
    written_by_newer_version,
)
from evenflow.stream_core.stores.response_store import Chunk, ResponseHead


class StoredResponses:
    """Reads responses from one table.

    All methods raise Overloaded when DynamoDB fails or can't be reached (`store_unavailable`), or
    a newer version wrote the response (`newer_form`).

    Args:
        client: a boto3 client of DynamoDB.
    """

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self._table = table

    def note_poll(
        self, response_id: str, channel: str, now: float, *, shared: bool
    ) -> ResponseHead:
        """Count a poll, which shows the response's owner that it has a reader. Returns the head.

        Args:
            shared: whether it came with a share token.

        Raises:
            NotFound: there is no such response, or it is another session's.
            Gone: it ended too long ago.
        """
        item = self._counted(response_id, shared=shared)
        if item is None or item["channel"]["S"] != channel:
            raise NotFound(
                f"this session has no response {response_id[:64]!r}", code="response_not_found"
            )
        return _unexpired(response_id, item, now)

    def head(self, response_id: str, now: float) -> ResponseHead:
        """The response's head.

        Raises:
            Gone: it ended too long ago.
        """
        with _failures_as_overloaded():
            answer = self._client.get_item(**requests.get_head(self._table, response_id))
        return _unexpired(response_id, answer.get("Item"), now)

    def chunks_and_head(
        self, response_id: str, from_index: int, now: float
    ) -> tuple[list[Chunk], ResponseHead]:
        """The chunks from the one with the entry before `from_index` on, and the head at that time.

        Raises:
            Gone: it ended too long ago.
        """
        items: list[Item] = []
        request = requests.query_from(self._table, response_id, from_index)
        while True:
            with _failures_as_overloaded():
                answer = self._client.query(**request)
            items += answer["Items"]
            if "LastEvaluatedKey" not in answer:
                break
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        item = next((item for item in items if is_head(item)), None)
        head = _unexpired(response_id, item, now)
        chunks = [read_chunk(item) for item in items if is_chunk(item) and alive(item, now)]
        return chunks, head

    def next_index(self, response_id: str) -> int:
        """The index behind the newest entry on record. 0 if there is none."""
        with _failures_as_overloaded():
            answer = self._client.query(**requests.query_newest(self._table, response_id))
        return max((requests.last_index(item) + 1 for item in answer["Items"]), default=0)

    def _counted(self, response_id: str, *, shared: bool) -> Item | None:
        try:
            with _failures_as_overloaded():
                request = requests.note_poll(self._table, response_id, shared=shared)
                answer = self._client.update_item(**request)
        except self._client.exceptions.ConditionalCheckFailedException:
            return None
        item: Item = answer["Attributes"]
        return item


def _unexpired(response_id: str, item: Item | None, now: float) -> ResponseHead:
    if item is None or not alive(item, now):
        raise Gone(
            f"response {response_id} ended too long ago and is no longer kept; ask again with a "
            "new message",
            code="response_expired",
        )
    head = read_head(item)
    if not head.is_readable:
        raise written_by_newer_version()
    return head


@contextmanager
def _failures_as_overloaded() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        if (
            isinstance(error, ClientError)
            and error.response["Error"]["Code"] == "ConditionalCheckFailedException"
        ):
            raise
        raise Overloaded(
            "the response store cannot be read at the moment; nothing is lost, poll again from "
            "the same index",
            code="store_unavailable",
            retry_after_ms=1_000,
        ) from error
