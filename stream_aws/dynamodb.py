"""DynamoDB's client, and which failures are worth a retry."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiohttp
from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from stream_core.ports.response_store import StoreUnavailable

T = TypeVar("T")

Client = Any
"""An aiobotocore DynamoDB client (the library carries no types)."""

_CONNECT_SECONDS = 1.0
_READ_SECONDS = 2.0
# Full jitter: a pause of up to so long before the second, third … attempt.
_LONGEST_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
# No attempt begins later, so that a call ends before the lease that it may be about does.
_LAST_ATTEMPT_SECONDS = 5.0

_PASSING = frozenset(
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
"""What the SDK raises when nobody answers, or somebody who isn't DynamoDB, such as a proxy on the way."""


def client_config(connections: int) -> AioConfig:
    """For `create_client("dynamodb", …)`, with at most so many connections. Calls are not repeated: their makers know better."""
    return AioConfig(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": 1},
        max_pool_connections=connections,
        # The SDK's own, made anew for each call, would be a tenth of what a call costs the event loop.
        user_agent="evenflow",
        # Checking each attribute of what we have typed ourselves would be half of what a write costs the event loop.
        parameter_validation=False,
    )


def passes(error: Exception) -> bool:
    """Whether a failure is one of throttling, or of a service or network that may come back."""
    if isinstance(error, ClientError):
        return error_code(error) in _PASSING or _conflicted(error) or _of_the_service(error)
    return isinstance(error, UNREACHABLE)


def error_code(error: ClientError) -> str:
    """The service's name for it."""
    return str(error.response.get("Error", {}).get("Code", ""))


def condition_failed(error: ClientError) -> bool:
    """Whether a condition did not hold, of one item or of any in a transaction."""
    if error_code(error) == "ConditionalCheckFailedException":
        return True
    return "ConditionalCheckFailed" in cancellation_reasons(error)


def cancellation_reasons(error: ClientError) -> list[str]:
    """Why a transaction was cancelled, one code per action; empty for other errors."""
    return [str(reason.get("Code")) for reason in error.response.get("CancellationReasons", ())]


async def repeated(call: Callable[[], Awaitable[T]], on_retry: Callable[[], None]) -> T:
    """Make a call, again with jittered pauses while it fails in a way that passes.

    Raises:
        StoreUnavailable: it kept failing.
        ClientError: it failed in another way, such as a condition.
    """
    last_at = asyncio.get_running_loop().time() + _LAST_ATTEMPT_SECONDS
    for longest_pause in (*_LONGEST_PAUSES, None):
        try:
            return await call()
        except Exception as error:
            if not passes(error):
                raise
            if longest_pause is None or asyncio.get_running_loop().time() > last_at:
                raise StoreUnavailable(f"DynamoDB did not answer as it should ({type(error).__name__})") from error
        on_retry()
        await asyncio.sleep(random.uniform(0, longest_pause))
    raise AssertionError


async def query_all(client: Client, request: dict[str, Any], on_retry: Callable[[], None]) -> list[dict[str, Any]]:
    """All items of a Query, page after page.

    Raises:
        StoreUnavailable, ClientError: see `repeated`.
    """
    page, items = dict(request), []
    while True:
        answer = await repeated(lambda: client.query(**page), on_retry)
        items += answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return items
        page["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


async def transact(client: Client, actions: list[dict[str, Any]], on_retry: Callable[[], None]) -> None:
    """All of these writes, or none.

    Raises:
        StoreUnavailable, ClientError: see `repeated`.
    """
    # The token makes a repetition harmless: DynamoDB knows for ten minutes that it has done this already.
    token = secrets.token_hex(16)
    await repeated(lambda: client.transact_write_items(TransactItems=actions, ClientRequestToken=token), on_retry)


def _of_the_service(error: ClientError) -> bool:
    status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= 500


def _conflicted(error: ClientError) -> bool:
    reasons = set(cancellation_reasons(error)) - {"None"}
    return bool(reasons) and reasons <= {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
