"""Conditional updates of several items in one request, where many are made at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from evenflow.stream_aws.dynamodb import Client, condition_failed, repeated, transact

_MOST = 25
# A transaction may have 100. Two nodes that update the same items conflict more often then.


@dataclass(eq=False, slots=True)
class _PendingUpdate:
    request: dict[str, Any]
    done: bool = False
    error: Exception | None = None


class GroupedUpdates:
    """Makes conditional updates, each with an outcome of its own.

    An update that comes alone is an UpdateItem. Those that come in one turn of the loop, or while a
    request is under way, are made together, in one transaction: one of 25 costs this node and
    DynamoDB's front end a tenth of 25 requests. If conditions fail in it, the others are made
    without them.

    Args:
        client: an aiobotocore client made with `client_config`.
        on_retry: called before each retry.
    """

    def __init__(self, client: Client, on_retry: Callable[[], None]) -> None:
        self._client = client
        self._on_retry = on_retry
        self._waiting: list[_PendingUpdate] = []  # in order of their turns
        self._turn = asyncio.Lock()

    async def update(self, request: dict[str, Any]) -> None:
        """Make an update. `request` is UpdateItem's, without ReturnValues.

        Raises:
            ClientError: the condition failed, or the call in another way. `Item` of its response
                is the item where `request` asks for it.
            StoreUnavailable: every attempt failed. Whether the update was made is unknown.
        """
        update = _PendingUpdate(request)
        self._waiting.append(update)
        try:
            async with self._turn:
                # Updates that come in this turn of the loop belong to the group.
                await asyncio.sleep(0)
                # Whoever had the turn before may have made this one too.
                while not update.done:
                    await self._make(self._next_group())
        finally:
            if update in self._waiting:
                self._waiting.remove(update)
        if update.error is not None:
            raise update.error

    def _next_group(self) -> list[_PendingUpdate]:
        group: dict[str, _PendingUpdate] = {}
        for update in self._waiting:
            group.setdefault(str(update.request["Key"]), update)  # a transaction has an item once
            if len(group) == _MOST:
                break
        return list(group.values())

    async def _make(self, group: list[_PendingUpdate]) -> None:
        """Make a group of updates, or learn which conditions fail."""
        error: Exception | None = None
        try:
            if len(group) == 1:
                await repeated(lambda: self._client.update_item(**group[0].request), self._on_retry)
            else:
                actions = [{"Update": update.request} for update in group]
                await transact(self._client, actions, self._on_retry)
        except Exception as failure:
            error = failure
        _note(group, error)
        self._waiting = [update for update in self._waiting if not update.done]


def _note(updates: list[_PendingUpdate], error: Exception | None) -> None:
    """Record the outcome of a request. If a condition of others failed, it stays pending."""
    reasons: list[dict[str, Any]] = []
    if isinstance(error, ClientError) and condition_failed(error):
        reasons = error.response.get("CancellationReasons", [])
    for update, reason in zip(updates, reasons, strict=False):
        if reason.get("Code") == "ConditionalCheckFailed":
            update.done, update.error = True, _failed(reason)
    if not reasons:
        for update in updates:
            update.done, update.error = True, error


def _failed(reason: dict[str, Any]) -> ClientError:
    """The error that an UpdateItem has for this reason."""
    response: Any = {
        "Error": {
            "Code": "ConditionalCheckFailedException",
            "Message": str(reason.get("Message", "The conditional request failed")),
        }
    }
    if "Item" in reason:
        response["Item"] = reason["Item"]
    return ClientError(response, "UpdateItem")
