"""The session store in DynamoDB."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from botocore.exceptions import ClientError

from evenflow.stream_aws.attributes import Item, flag, number, seconds, text
from evenflow.stream_aws.dynamodb import (
    Client,
    condition_failed,
    delete_all,
    get_all,
    query_all,
    repeated,
    transact,
)
from evenflow.stream_aws.dynamodb_kept_bytes import DynamoDBKeptBytes
from evenflow.stream_aws.grouped_reads import GroupedReads
from evenflow.stream_aws.response_items import alive, head_item
from evenflow.stream_aws.tables import TTL_ATTRIBUTE, TableNames
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.stores.conversation_tree import MessageLink, in_causal_order
from evenflow.stream_core.stores.response_store import (
    LIFETIME_SECONDS,
    Lease,
    ResponseHead,
    StoreUnavailable,
)
from evenflow.stream_core.stores.session_store import (
    LedgerEntry,
    NotAccepted,
    StoredConversation,
    kept_seconds,
)

LARGEST_TEXT_IN_ENTRY = 2_048
"""The longest text, in bytes, in its message's item. A longer one is an item of its own. It is
written once, without a transaction: one write unit a KB instead of three (decision 0077).
"""

# The attribute that names the item of a message's text, and the beginning of such names. A client's
# message with such a name is refused, like one that exists.
_TEXT_ROW, _TEXT_ROWS = "text_row", "text#"
_MOST_LOOKS = 5  # for a text that is missing
# Of a message without its text: its item, and those of its session and response.
_ITEM_BYTES = 1_024


class DynamoDBSessionStore:
    """The session store in DynamoDB (`SessionStore`).

    The causal order is a write's condition: only the message that names the session's last one can
    replace it. So two nodes that know a session can't both accept its next message.

    Args:
        client: an aiobotocore client made with `client_config`.
        on_retry: called before each retry.
        lifetime: how long messages of chats are kept, in seconds.
        kept_bytes: counts the bytes of each tenant. None: nothing is counted or bounded.
    """

    def __init__(
        self,
        client: Client,
        tables: TableNames,
        on_retry: Callable[[], None],
        lifetime: float = LIFETIME_SECONDS,
        kept_bytes: DynamoDBKeptBytes | None = None,
    ) -> None:
        self._client = client
        self._tables = tables
        self._on_retry = on_retry
        self._lifetime = lifetime
        self._kept_bytes = kept_bytes
        self._heads = GroupedReads(client, tables.sessions, on_retry)
        self._ends = GroupedReads(client, tables.sessions, on_retry, consistent=False)

    async def load(self, channel: Channel, now: float) -> StoredConversation:
        for look in count(1):
            items, head = await asyncio.gather(self._ledger(channel), self.head(channel, now))
            if head.ended:
                return head
            items = [item for item in items if alive(item, now)]
            entries = _read_entries(items)
            if len(entries) < sum(map(_is_entry, items)) and look < _MOST_LOOKS:
                continue  # a message was accepted after the page with its text was read
            followed = {entry.previous_message_id for entry in entries}
            last = [entry.message_id for entry in entries if entry.message_id not in followed]
            # Several, if messages were accepted between two pages of the ledger.
            if len(last) <= 1:
                last_id = last[0] if last else None
                return StoredConversation(last_id, in_causal_order(last_id, entries))
        raise AssertionError

    async def head(self, channel: Channel, now: float) -> StoredConversation:
        item = await self._heads.get({"channel": text(str(channel))})
        session = item if item is not None and alive(item, now) else {}
        last = session.get("last_message_id", {}).get("S")
        return StoredConversation(last, (), "ended" in session, "has_versions" in session)

    async def message(self, channel: Channel, message_id: str, now: float) -> LedgerEntry | None:
        key = {"channel": text(str(channel)), "message_id": text(message_id)}
        item = await self._ledger_item(key, now)
        if item is None or not _is_entry(item):
            return None
        if _TEXT_ROW not in item:
            return _read_entry(item)
        key["message_id"] = item[_TEXT_ROW]
        of_text = await self._ledger_item(key, now)
        return None if of_text is None else _read_entry(item | {"text": of_text["text"]})

    async def links(
        self, channel: Channel, last_message_id: str, now: float
    ) -> Sequence[MessageLink]:
        names = ", ".join(("response_id", "#expires", *MessageLink._fields))
        items = await self._ledger(channel, names)
        links = [_read_link(item) for item in items if _is_entry(item) and alive(item, now)]
        return in_causal_order(last_message_id, links)

    async def find_ended(self, channels: Collection[Channel], now: float) -> frozenset[Channel]:
        keys = [{"channel": text(str(channel))} for channel in channels]
        if len(keys) == 1:
            item = await self._ends.get(keys[0])
            items = [] if item is None else [item]
        else:
            table = self._tables.sessions
            items = await get_all(self._client, table, keys, self._on_retry, consistent=False)
        ended_channels = {
            item["channel"]["S"] for item in items if "ended" in item and alive(item, now)
        }
        return frozenset(channel for channel in channels if str(channel) in ended_channels)

    async def accept(self, channel: Channel, entry: LedgerEntry, now: float) -> Lease:
        expires_at = now + kept_seconds(entry, self._lifetime)
        if self._kept_bytes is not None:
            self._kept_bytes.check(channel.tenant, _size(entry), now)
        lease = await self._accept(channel, entry, now)
        if self._kept_bytes is not None:
            self._kept_bytes.add(channel.tenant, _size(entry), expires_at, now)
        return lease

    async def _accept(self, channel: Channel, entry: LedgerEntry, now: float) -> Lease:
        head = ResponseHead(
            entry.response_id,
            str(channel),
            entry.message_id,
            entry.owner,
            1,
            now,
            now + LIFETIME_SECONDS,
        )
        is_long = len(entry.text.encode()) > LARGEST_TEXT_IN_ENTRY
        actions = [
            {"Update": self._follow(channel, entry, now)},
            {"Put": self._enter(channel, entry, now, is_long=is_long)},
            {
                "Put": {
                    "TableName": self._tables.responses,
                    "Item": head_item(head),
                    "ConditionExpression": "attribute_not_exists(response_id)",
                }
            },
        ]
        # Before the message: so a message on record always has its text, and the end of its session
        # finds both.
        if is_long:
            await self._put_text(channel, entry, now)
        try:
            await transact(self._client, actions, self._on_retry)
        except ClientError as error:
            if not condition_failed(error):
                raise
            if not _has_been_done(error, entry):
                if is_long:
                    with suppress(StoreUnavailable):  # then it expires
                        await self._delete_text(channel, entry)
                raise NotAccepted(
                    f"message {entry.message_id} is known already, or doesn't follow the session's "
                    "last one"
                ) from error
        return head.lease

    async def record_answer(
        self, channel: Channel, message_id: str, answer: str | None, outcome: str = ""
    ) -> None:
        values: Item = {":true": flag(True), ":outcome": text(outcome)}
        update = "SET ended = :true, outcome = :outcome"
        if answer is not None:
            values[":answer"] = text(answer)
            update += ", answer = :answer"
        request = {
            "TableName": self._tables.ledger,
            "Key": {"channel": text(str(channel)), "message_id": text(message_id)},
            "UpdateExpression": update,
            "ConditionExpression": "attribute_exists(message_id)",
            "ExpressionAttributeValues": values,
        }
        try:
            await repeated(lambda: self._client.update_item(**request), self._on_retry)
        except ClientError as error:
            if not condition_failed(error):  # an entry that has expired is left alone
                raise

    async def end(self, channel: Channel, now: float) -> Sequence[LedgerEntry]:
        # First nothing is accepted any more, then there is nothing left to delete.
        request = {
            "TableName": self._tables.sessions,
            "Key": {"channel": text(str(channel))},
            "UpdateExpression": "SET ended = :true, #expires = :expires REMOVE last_message_id",
            "ExpressionAttributeNames": {"#expires": TTL_ATTRIBUTE},
            "ExpressionAttributeValues": {
                ":true": flag(True),
                ":expires": seconds(now + LIFETIME_SECONDS),
            },
        }
        await repeated(lambda: self._client.update_item(**request), self._on_retry)
        items = await self._ledger(channel)
        keys = [{name: item[name] for name in ("channel", "message_id")} for item in items]
        await delete_all(self._client, self._tables.ledger, keys, self._on_retry)
        if self._kept_bytes is not None:
            for item in items:
                expires_at = float(item[TTL_ATTRIBUTE]["N"])
                self._kept_bytes.add(channel.tenant, -_size_of_item(item), expires_at, now)
        return _read_entries(items)

    async def _ledger_item(self, key: Item, now: float) -> Item | None:
        request = {"TableName": self._tables.ledger, "Key": key, "ConsistentRead": True}
        answer = await repeated(lambda: self._client.get_item(**request), self._on_retry)
        item: Item | None = answer.get("Item")
        return item if alive(item, now) else None

    def _follow(self, channel: Channel, entry: LedgerEntry, now: float) -> Item:
        """Make this the session's last message, if the message that it names is the last one."""
        names = {"#expires": TTL_ATTRIBUTE}
        changes = "SET last_message_id = :message, #expires = :expires"
        removed_names = "ended"
        values = {
            ":message": text(entry.message_id),
            ":now": number(now),
            ":expires": seconds(now + kept_seconds(entry, self._lifetime)),
        }
        if entry.previous_message_id is None:
            condition = (
                "attribute_not_exists(last_message_id) AND attribute_not_exists(ended) "
                "OR #expires <= :now"
            )
            removed_names += ", has_versions"
        else:
            condition = "last_message_id = :previous AND #expires > :now"
            values[":previous"] = text(entry.previous_message_id)
            if entry.link.branches:
                changes += ", has_versions = :true"
                values[":true"] = flag(True)
        return {
            "TableName": self._tables.sessions,
            "Key": {"channel": text(str(channel))},
            "UpdateExpression": f"{changes} REMOVE {removed_names}",
            "ConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
        }

    async def _put_text(self, channel: Channel, entry: LedgerEntry, now: float) -> None:
        item = _text_key(channel, entry) | {
            "text": text(entry.text),
            TTL_ATTRIBUTE: seconds(now + kept_seconds(entry, self._lifetime)),
        }
        await repeated(
            lambda: self._client.put_item(TableName=self._tables.ledger, Item=item), self._on_retry
        )

    async def _delete_text(self, channel: Channel, entry: LedgerEntry) -> None:
        key = _text_key(channel, entry)
        await delete_all(self._client, self._tables.ledger, [key], self._on_retry)

    def _enter(self, channel: Channel, entry: LedgerEntry, now: float, *, is_long: bool) -> Item:
        of_text = (
            {_TEXT_ROW: _text_key(channel, entry)["message_id"]}
            if is_long
            else {"text": text(entry.text)}
        )
        item = {
            "channel": text(str(channel)),
            "message_id": text(entry.message_id),
            **of_text,
            "response_id": text(entry.response_id),
            "owner": text(entry.owner),
            "accepted_at": number(now),
            "ended": flag(entry.ended),
            TTL_ATTRIBUTE: seconds(now + kept_seconds(entry, self._lifetime)),
        }
        for name in ("previous_message_id", "replaces", "parent_message_id", "text_name"):
            if (value := getattr(entry, name)) is not None:
                item[name] = text(value)
        for name in ("terms", "kind"):
            if value := getattr(entry, name):
                item[name] = text(value)
        if entry.text_bytes:
            item["text_bytes"] = number(entry.text_bytes)
        return {
            "TableName": self._tables.ledger,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(message_id) OR #expires <= :now",
            "ExpressionAttributeNames": {"#expires": TTL_ATTRIBUTE},
            "ExpressionAttributeValues": {":now": number(now)},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    async def _ledger(self, channel: Channel, names: str = "") -> list[Item]:
        """The items of a session, with all of their attributes or those of these `names`."""
        request: dict[str, Any] = {
            "TableName": self._tables.ledger,
            "ConsistentRead": True,
            "KeyConditionExpression": "channel = :channel",
            "ExpressionAttributeValues": {":channel": text(str(channel))},
        }
        if names:
            request["ProjectionExpression"] = names
            request["ExpressionAttributeNames"] = {"#expires": TTL_ATTRIBUTE}
        return await query_all(self._client, request, self._on_retry)


def _size(entry: LedgerEntry) -> int:
    """The bytes kept of a message before it is answered."""
    texts = entry.text.encode(), entry.terms.encode()
    return _ITEM_BYTES + sum(map(len, texts)) + entry.text_bytes


def _size_of_item(item: Item) -> int:
    """The bytes that an item of the ledger was counted for: a message, or the text of one."""
    texts = (item[name]["S"] for name in ("text", "terms") if name in item)
    apart = int(item["text_bytes"]["N"]) if "text_bytes" in item else 0
    return _ITEM_BYTES * _is_entry(item) + sum(len(each.encode()) for each in texts) + apart


def _has_been_done(error: ClientError, entry: LedgerEntry) -> bool:
    """Whether the ledger has this entry: an earlier call succeeded, and its answer was lost."""
    stored_entries = [
        reason["Item"]
        for reason in error.response.get("CancellationReasons", ())
        if "Item" in reason
    ]
    return any(item["response_id"]["S"] == entry.response_id for item in stored_entries)


def _text_key(channel: Channel, entry: LedgerEntry) -> Item:
    """The key of a long text. It has the response's id, which is unique to this try."""
    return {"channel": text(str(channel)), "message_id": text(_TEXT_ROWS + entry.response_id)}


def _is_entry(item: Item) -> bool:
    """Whether an item of the ledger is a message, and not the text of one."""
    return "response_id" in item


def _read_entries(items: Sequence[Item]) -> list[LedgerEntry]:
    """The messages in these items. Those with a missing text are left out."""
    texts = {item["message_id"]["S"]: item["text"] for item in items if not _is_entry(item)}
    entries: list[LedgerEntry] = []
    for item in filter(_is_entry, items):
        if _TEXT_ROW not in item:
            entries.append(_read_entry(item))
        elif (long_text := texts.get(item[_TEXT_ROW]["S"])) is not None:
            entries.append(_read_entry(item | {"text": long_text}))
    return entries


def _read_entry(item: Item) -> LedgerEntry:
    return LedgerEntry(
        message_id=item["message_id"]["S"],
        previous_message_id=item.get("previous_message_id", {}).get("S"),
        text=item["text"]["S"],
        response_id=item["response_id"]["S"],
        owner=item["owner"]["S"],
        answer=item.get("answer", {}).get("S"),
        ended=item["ended"]["BOOL"],
        replaces=item.get("replaces", {}).get("S"),
        terms=item.get("terms", {}).get("S", ""),
        kind=item.get("kind", {}).get("S", ""),
        text_name=item.get("text_name", {}).get("S"),
        outcome=item.get("outcome", {}).get("S", ""),
        parent_message_id=item.get("parent_message_id", {}).get("S"),
    )


def _read_link(item: Item) -> MessageLink:
    values = (item.get(name, {}).get("S") for name in MessageLink._fields[1:])
    return MessageLink(item["message_id"]["S"], *values)
