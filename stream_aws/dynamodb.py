"""DynamoDB's client, and retries of calls that may succeed later."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import aiohttp
from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from evenflow.stream_core.stores.response_store import StoreUnavailable

T = TypeVar("T")

Client = Any
"""An aiobotocore client of DynamoDB. The library has no types."""

_CONNECT_SECONDS = 1.0
# A store that takes two seconds is slow. Given up sooner, it would be an outage.
_READ_SECONDS = 4.0
# Full jitter: the longest pause before the second, third … attempt, in seconds.
_LONGEST_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
# No attempt begins later than this: by then the caller has given the call up.
_LAST_ATTEMPT_SECONDS = 5.0

MOST_READS = 100  # in one BatchGetItem
_MOST_WRITES = 25  # in one BatchWriteItem

_CONFLICT = "TransactionConflict"
_TRANSIENT = frozenset(
    {
        "InternalServerError",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
UNREACHABLE = (BotoCoreError, ResponseParserError, aiohttp.ClientError, OSError, TimeoutError)
"""The errors of the SDK when no reply comes, or a proxy on the way replies."""


def client_config(connections: int) -> AioConfig:
    """The settings for `create_client("dynamodb", …)`. It makes each call once: callers retry."""
    return AioConfig(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": 1},
        max_pool_connections=connections,
        # The SDK makes its own anew for each call, which costs a tenth of the call.
        user_agent="evenflow",
        # The attributes' types are known. Checking them would take half the CPU time of a write.
        parameter_validation=False,
    )


def passes(error: Exception) -> bool:
    """Whether the failure may pass: throttling, or a fault of the service or the network."""
    if isinstance(error, ClientError):
        return (
            error_code(error) in _TRANSIENT
            or _is_throttled_or_conflicted(error)
            or _is_server_error(error)
        )
    return isinstance(error, UNREACHABLE)


def error_code(error: ClientError) -> str:
    """The service's code for the error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def condition_failed(error: ClientError) -> bool:
    """Whether a condition failed, of one item or of any in a transaction."""
    if error_code(error) == "ConditionalCheckFailedException":
        return True
    return "ConditionalCheckFailed" in cancellation_reasons(error)


def cancellation_reasons(error: ClientError) -> list[str]:
    """Why a transaction was cancelled, one code an action. Empty for other errors."""
    return [str(reason.get("Code")) for reason in error.response.get("CancellationReasons", ())]


async def repeated(call: Callable[[], Awaitable[T]], on_retry: Callable[[], None]) -> T:
    """Make a call, and retry with jittered pauses while its failures may pass.

    Raises:
        StoreUnavailable: every attempt failed.
        ClientError: the call failed in another way, for example by a condition.
    """
    last_at = asyncio.get_running_loop().time() + _LAST_ATTEMPT_SECONDS
    pauses = iter(_LONGEST_PAUSES)
    while True:
        try:
            return await call()
        except Exception as error:
            if not passes(error):
                raise
            # A transaction takes milliseconds, but any number of tries may meet one.
            longest_pause = next(pauses, _LONGEST_PAUSES[-1] if _conflicted(error) else None)
            if longest_pause is None or asyncio.get_running_loop().time() > last_at:
                raise StoreUnavailable(
                    f"DynamoDB failed or did not answer ({type(error).__name__})"
                ) from error
        on_retry()
        await asyncio.sleep(random.uniform(0, longest_pause))


async def query_all(
    client: Client, request: dict[str, Any], on_retry: Callable[[], None]
) -> list[dict[str, Any]]:
    """All items of a Query, from all of its pages.

    Raises:
        StoreUnavailable: every attempt failed.
        ClientError: the call failed in another way.
    """
    page, items = dict(request), []
    while True:
        answer = await repeated(lambda: client.query(**page), on_retry)
        items += answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return items
        page["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


async def get_all(
    client: Client,
    table: str,
    keys: Sequence[dict[str, Any]],
    on_retry: Callable[[], None],
    *,
    consistent: bool = True,
) -> list[dict[str, Any]]:
    """The items with these keys, in no order. Missing ones are left out.

    Args:
        consistent: whether writes of the last second are seen, at twice the price.

    Raises:
        StoreUnavailable: every attempt failed, or DynamoDB did not read all of them.
        ClientError: the call failed in another way.
    """
    items: list[dict[str, Any]] = []
    for first in range(0, len(keys), MOST_READS):
        unread = list(keys[first : first + MOST_READS])

        async def read() -> None:
            nonlocal unread
            request = {table: {"Keys": unread, "ConsistentRead": consistent}}
            answer = await client.batch_get_item(RequestItems=request)
            items.extend(answer["Responses"][table])
            if unread := answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", []):
                raise TimeoutError

        await repeated(read, on_retry)
    return items


async def delete_all(
    client: Client, table: str, keys: Sequence[dict[str, Any]], on_retry: Callable[[], None]
) -> None:
    """Delete the items with these keys.

    Raises:
        StoreUnavailable: every attempt failed, or DynamoDB did not take all of them.
        ClientError: the call failed in another way.
    """
    await write_all(client, table, [{"DeleteRequest": {"Key": key}} for key in keys], on_retry)


async def write_all(
    client: Client, table: str, writes: Sequence[dict[str, Any]], on_retry: Callable[[], None]
) -> None:
    """Put and delete items, some at once, each by itself.

    Args:
        writes: as BatchWriteItem takes them.

    Raises:
        StoreUnavailable: every attempt failed, or DynamoDB did not take all of them.
        ClientError: the call failed in another way.
    """
    for first in range(0, len(writes), _MOST_WRITES):
        unwritten = {table: [*writes[first : first + _MOST_WRITES]]}

        async def write() -> None:
            nonlocal unwritten
            answer = await client.batch_write_item(RequestItems=unwritten)
            if unwritten := answer.get("UnprocessedItems", {}):
                raise TimeoutError

        await repeated(write, on_retry)


async def transact(
    client: Client, actions: list[dict[str, Any]], on_retry: Callable[[], None]
) -> None:
    """Make all of these writes, or none.

    Raises:
        StoreUnavailable: every attempt failed.
        ClientError: the call failed in another way, for example by a condition.
    """
    # The token makes a retry harmless: for ten minutes DynamoDB knows what it has done.
    token = secrets.token_hex(16)
    await repeated(
        lambda: client.transact_write_items(TransactItems=actions, ClientRequestToken=token),
        on_retry,
    )


def _is_server_error(error: ClientError) -> bool:
    status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= 500


def _is_throttled_or_conflicted(error: ClientError) -> bool:
    """Whether a transaction was cancelled for throttling or conflicts alone."""
    reasons = set(cancellation_reasons(error)) - {"None"}
    return bool(reasons) and reasons <= {
        _CONFLICT,
        "ThrottlingError",
        "ProvisionedThroughputExceeded",
    }


def _conflicted(error: Exception) -> bool:
    """Whether the call conflicted with another write of the same items."""
    if not isinstance(error, ClientError):
        return False
    return error_code(error) == f"{_CONFLICT}Exception" or _CONFLICT in cancellation_reasons(error)
