"""Gives the messages of dead letters new responses."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botocore.exceptions import ClientError

from evenflow.stream_aws.attributes import Item, flag, number, text
from evenflow.stream_aws.dynamodb import Client, condition_failed, repeated, transact
from evenflow.stream_aws.dynamodb_response_store import DynamoDBResponseStore
from evenflow.stream_aws.response_items import alive, head_item
from evenflow.stream_aws.sqs_dead_letters import read_letter
from evenflow.stream_aws.tables import TTL_ATTRIBUTE
from evenflow.stream_core.stores.dead_letters import DeadLetter
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS, ResponseHead

_AT_ONCE = 10
"""The most that ReceiveMessage gives."""
_WAIT_SECONDS = 1
"""Without waiting, ReceiveMessage asks only some of SQS's servers."""
# Ten letters take less. If this process is lost, the queue gives them again, and nodes go on with
# what was done.
_SECONDS = 120


class RedriveOutcome(StrEnum):
    """What became of a letter. The value is for people."""

    REDRIVEN = "redriven"
    WOULD_BE_REDRIVEN = "would be redriven"
    REDRIVEN_BEFORE = "redriven before"
    EXPIRED = "expired"
    UNREADABLE = "no dead letter; left there"


@dataclass(frozen=True, slots=True)
class Redriven:
    """A letter, None if it can't be read, and the response that its message has now."""

    outcome: RedriveOutcome
    letter: DeadLetter | None
    response_id: str | None = None


class Redriving:
    """Takes letters from the queue, and writes a new, empty response for the message of each.

    It does what a node does that accepts messages and leaves at once: it takes a lease and releases
    it. So the running nodes take the responses over like those of any node that left. A message is
    redriven only from the response in its letter, so a repetition does nothing.

    Args:
        dynamodb: an aiobotocore client made with `client_config`.
        sqs: an aiobotocore client.
        ledger, responses: the tables' names.
        wall_time: seconds since the epoch.
    """

    def __init__(
        self,
        dynamodb: Client,
        sqs: Any,
        *,
        ledger: str,
        responses: str,
        queue_url: str,
        wall_time: Callable[[], float],
    ) -> None:
        self._dynamodb = dynamodb
        self._sqs = sqs
        self._ledger = ledger
        self._responses = responses
        self._queue_url = queue_url
        self._wall_time = wall_time

    async def redrive(self, limit: int) -> AsyncIterator[Redriven]:
        """Redrive at most `limit` letters. They are deleted, except those that can't be read.

        Raises:
            StoreUnavailable, ClientError, BotoCoreError: AWS refuses or can't be reached. What was
                yielded is done; the others stay in the queue.
        """
        store = DynamoDBResponseStore(self._dynamodb, self._responses, _ignore_retry)
        async for messages in self._received(limit):
            owner = f"redrive-{secrets.token_hex(4)}"
            await store.renew(owner, self._wall_time() + _SECONDS)
            try:
                for message in messages:
                    yield await self._redrive(message, owner)
            finally:
                await store.release(owner)

    async def look(self, limit: int) -> AsyncIterator[Redriven]:
        """Say what `redrive` would do. The letters stay in the queue.

        Raises:
            StoreUnavailable, ClientError, BotoCoreError: AWS refuses or can't be reached.
        """
        received: list[Item] = []
        try:
            async for messages in self._received(limit):
                received += messages
                for message in messages:
                    yield await self._look_at(message)
        finally:
            for message in received:
                await self._sqs.change_message_visibility(
                    QueueUrl=self._queue_url,
                    ReceiptHandle=message["ReceiptHandle"],
                    VisibilityTimeout=0,
                )

    async def _received(self, limit: int) -> AsyncIterator[list[Item]]:
        while limit > 0:
            answer = await self._sqs.receive_message(
                QueueUrl=self._queue_url,
                MaxNumberOfMessages=min(limit, _AT_ONCE),
                VisibilityTimeout=_SECONDS,
                WaitTimeSeconds=_WAIT_SECONDS,
            )
            messages = answer.get("Messages", [])
            if not messages:
                return
            limit -= len(messages)
            yield messages

    async def _redrive(self, message: Item, owner: str) -> Redriven:
        letter = _letter(message)
        if letter is None:
            return Redriven(RedriveOutcome.UNREADABLE, None)
        redriven = await self._begin_anew(letter, owner)
        await self._sqs.delete_message(
            QueueUrl=self._queue_url, ReceiptHandle=message["ReceiptHandle"]
        )
        return redriven

    async def _begin_anew(self, letter: DeadLetter, owner: str) -> Redriven:
        now, response_id = self._wall_time(), f"rsp_{secrets.token_hex(16)}"
        head = ResponseHead(
            response_id,
            letter.channel,
            letter.message_id,
            owner,
            epoch=1,
            created_at=now,
            expires_at=now + LIFETIME_SECONDS,
        )
        actions = [
            {"Update": self._replace(letter, head)},
            {"Put": {"TableName": self._responses, "Item": head_item(head)}},
        ]
        try:
            await transact(self._dynamodb, actions, _ignore_retry)
        except ClientError as error:
            if not condition_failed(error):
                raise
            return _refused(letter, error.response["CancellationReasons"][0].get("Item"), now)
        return Redriven(RedriveOutcome.REDRIVEN, letter, response_id)

    def _replace(self, letter: DeadLetter, head: ResponseHead) -> Item:
        """The ledger's update, on the condition that the letter's response is the latest."""
        return {
            "TableName": self._ledger,
            "Key": _ledger_key(letter),
            "UpdateExpression": (
                "SET response_id = :new, #owner = :owner, ended = :false REMOVE answer"
            ),
            "ConditionExpression": "response_id = :old AND #expires > :now",
            "ExpressionAttributeNames": {"#owner": "owner", "#expires": TTL_ATTRIBUTE},
            "ExpressionAttributeValues": {
                ":new": text(head.response_id),
                ":owner": text(head.owner),
                ":false": flag(False),
                ":old": text(letter.response_id),
                ":now": number(head.created_at),
            },
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    async def _look_at(self, message: Item) -> Redriven:
        letter = _letter(message)
        if letter is None:
            return Redriven(RedriveOutcome.UNREADABLE, None)
        request = {"TableName": self._ledger, "Key": _ledger_key(letter), "ConsistentRead": True}
        answer = await repeated(lambda: self._dynamodb.get_item(**request), _ignore_retry)
        entry, now = answer.get("Item"), self._wall_time()
        if alive(entry, now) and entry["response_id"] == text(letter.response_id):
            return Redriven(RedriveOutcome.WOULD_BE_REDRIVEN, letter)
        return _refused(letter, entry, now)


def _refused(letter: DeadLetter, entry: Item | None, now: float) -> Redriven:
    """Why a message is not redriven, by its entry in the ledger."""
    if entry is not None and alive(entry, now):
        return Redriven(RedriveOutcome.REDRIVEN_BEFORE, letter, entry["response_id"]["S"])
    return Redriven(RedriveOutcome.EXPIRED, letter)


def _letter(message: Item) -> DeadLetter | None:
    try:
        return read_letter(message["Body"])
    except ValueError:
        return None


def _ledger_key(letter: DeadLetter) -> Item:
    return {"channel": text(letter.channel), "message_id": text(letter.message_id)}


def _ignore_retry() -> None:
    """Ignore a retry."""
