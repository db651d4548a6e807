"""A client of an AWS service that streams, for hundreds of calls at once."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import aiohttp
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from botocore.parsers import ResponseParserError

from evenflow.fargate_handler.token_sources.aws_failures import (
    NOT_READABLE,
    failure_of,
    unreadable_event,
)
from evenflow.fargate_handler.token_sources.model_connection import abort_connection
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog
from evenflow.stream_core.base.errors import EvenflowError

_logger = logging.getLogger(__name__)

Event = dict[str, Any]

_FAILURES = (BotoCoreError, ClientError, aiohttp.ClientError, OSError)
_CALL_FAILURES = (*_FAILURES, ResponseParserError, ValueError)


class AwsClient:
    """A client of one service. Region, endpoint and credentials are the SDK's, and AWS_REGION's.

    Args:
        service: the SDK's name of the service.
        most_calls: how many calls run at once. More would wait for a connection.
        check: what to check, in the log, when the service refuses us.
    """

    def __init__(self, service: str, most_calls: int, check: str) -> None:
        self._service = service
        self._check = check
        self._config = AioConfig(
            max_pool_connections=most_calls,
            connect_timeout=10,
            read_timeout=None,  # the orchestrator has deadlines and retries
            retries={"total_max_attempts": 1},
            # In a thread: the service's description is a megabyte of JSON.
            warm_up_loader_caches=True,
        )
        self._operator = OperatorLog(_logger)
        self._opening = asyncio.Lock()
        self._open = AsyncExitStack()
        self._client: Any = None

    async def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Make a call whose answer has an event stream. Read it within `hanging_up`.

        Raises:
            EvenflowError: the call failed, with the error of `failure_of`.
        """
        client: Any = None
        try:
            client = self._client or await self._opened()
            answer: dict[str, Any] = await getattr(client, operation)(**arguments)
        except NoCredentialsError as error:
            if self._client is client:  # another call may have opened a new one meanwhile
                await self.close()  # no call runs on it; the next one looks for credentials anew
            raise self._failure(error) from error
        except _CALL_FAILURES as error:
            raise self._failure(error) from error
        return answer

    async def next_event(self, events: AsyncIterator[Event]) -> Event | None:
        """The stream's next event, None at its end. Unknown types of events are skipped.

        Raises:
            EvenflowError: the stream broke, ended with an error, or has an event that can't be
                read.
        """
        try:
            return await anext(events, None)
        except _FAILURES as error:
            raise self._failure(error) from error
        except NOT_READABLE as error:
            raise unreadable_event() from error

    async def close(self) -> None:
        """Close the connections."""
        self._client = None
        await self._open.aclose()

    def _failure(self, error: Exception) -> EvenflowError:
        return failure_of(error, self._service, self._check, self._operator)

    async def _opened(self) -> Any:
        async with self._opening:
            if self._client is None:
                # The SDK itself reads only AWS_DEFAULT_REGION.
                region = os.environ.get("AWS_REGION")
                client = get_session().create_client(
                    self._service, region_name=region, config=self._config
                )
                self._client = await self._open.enter_async_context(client)
        return self._client


@contextmanager
def hanging_up(stream: Any) -> Iterator[AsyncIterator[Event]]:
    """The events of an answer.

    Leaving before their end resets the connection, which stops the model.

    At their end the connection is kept for another call. `stream.close()` alone is not enough:
    under TLS and uvloop it waits half a minute for a server that only writes.
    """
    try:
        yield aiter(stream)
    finally:
        abort_connection(stream._raw_stream)  # noqa: SLF001 - the SDK has no call for it
        stream.close()
