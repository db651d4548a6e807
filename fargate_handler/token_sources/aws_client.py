"""A client of an AWS service that streams, for hundreds of calls at once."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import aiohttp
import orjson
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.eventstream import ParserError
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
from botocore.exceptions import ConnectionError as NotConnected
from botocore.parsers import ResponseParserError

from evenflow.fargate_handler.token_sources.model_connection import abort_connection
from evenflow.fargate_handler.token_sources.model_refusals import refusal
from evenflow.fargate_handler.token_sources.openai_failures import message_of
from evenflow.fargate_handler.token_sources.operator_log import OperatorLog, not_set_up
from evenflow.stream_core.base.errors import (
    EvenflowError,
    ModelRefused,
    Overloaded,
    RateLimited,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRejected,
    UpstreamUnreadable,
)

NOT_READABLE = (
    ParserError,
    ResponseParserError,
    struct.error,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""The exceptions of the SDK and of our code for an event that differs from its schema."""

_THROTTLED = frozenset(
    [
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "ServiceQuotaExceededException",
    ]
)
# These come with 401, 403 or 404, or with 400.
_REJECTED = frozenset(
    [
        "AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature",
        "InvalidSignatureException", "MissingAuthenticationToken",
        "MissingAuthenticationTokenException", "OptInRequired", "ResourceNotFoundException",
        "UnrecognizedClientException",
        # SageMaker's own: the endpoint doesn't exist; a model's refusal is a ModelError.
        "ValidationError",
    ]
)  # fmt: skip
# Bedrock has one name for a message that is too long and for a model that doesn't exist.
_ABOUT_OUR_SETTINGS = re.compile(
    r"model ?id|on-demand throughput|the model that you provided|"
    r"maximum tokens you requested|(does|is)n.t support"
    r"|endpointName",
    re.IGNORECASE,
)
_LOGGED_CHARACTERS = 300
_UNAVAILABLE = frozenset(["ServiceUnavailableException", "ModelNotReadyException"])
# The connection failed, or something other than AWS answered.
_BROKEN = (
    HTTPClientError,
    NotConnected,
    aiohttp.ClientError,
    OSError,
    ResponseParserError,
    UnicodeDecodeError,
)


def failure_of(error: Exception, service: str, check: str, operator: OperatorLog) -> EvenflowError:
    """The error for an exception of the SDK.

    Args:
        service: the service's name, for the log.
        check: what to check when the service refuses us.
        operator: the log for that.
    """
    if isinstance(error, ClientError):
        return _answered(error, service, check, operator)
    if isinstance(error, _BROKEN):
        return UpstreamFailed(
            f"the connection to the model failed ({type(error).__name__}); what it had sent was "
            "kept",
            code="upstream_failed",
        )
    # No credentials, no region, or an endpoint that is not a URL: the call was never made.
    return _rejected(service, str(error), check, operator)


def unreadable_event() -> UpstreamFailed:
    """The error for a stream with an event that can't be read."""
    return UpstreamUnreadable(
        "the model sent an event that cannot be read; what came before was kept",
        code="upstream_failed",
    )


def _answered(error: ClientError, service: str, check: str, operator: OperatorLog) -> EvenflowError:
    answer = error.response
    error_fields = answer.get("Error", {})
    name, message = str(error_fields.get("Code", "")), str(error_fields.get("Message", ""))
    # The same failure is `throttlingException` inside a stream.
    name = name[:1].upper() + name[1:]
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if name == "ModelError":
        status, message = (
            answer.get("OriginalStatusCode"),
            _message_in(answer.get("OriginalMessage")),
        )
    if (busy := _busy(name, status)) is not None:
        return busy
    if status in (401, 403, 404) or name in _REJECTED:
        return _rejected(service, f"{name}: {message}", check, operator)
    if name == "ValidationException":
        # A message about tools is for the sender of the tools.
        if _ABOUT_OUR_SETTINGS.search(message) and "tool" not in message.lower():
            return _rejected(service, f"{name}: {message}", check, operator)
        return _refused_by_model(service, message, operator)
    if name == "ModelError" and status in (400, 413, 422):
        return _refused_by_model(service, message, operator)
    return UpstreamFailed(
        f"the model failed ({name or status}); what it had sent was kept", code="upstream_failed"
    )


def _busy(name: str, status: object) -> UpstreamAnswered | None:
    if status == 429 or name in _THROTTLED:
        return UpstreamAnswered(
            "the model has too much to do at the moment; what it had sent was kept, ask again in "
            "a few seconds",
            code="upstream_throttled",
            status=429,
            type=RateLimited.type,
        )
    if name in _UNAVAILABLE or status == 503:
        return UpstreamAnswered(
            "the model is not available at the moment; what it had sent was kept, ask again in a "
            "few seconds",
            code="upstream_overloaded",
            status=503,
            type=Overloaded.type,
        )
    return None


def _refused_by_model(service: str, message: str, operator: OperatorLog) -> ModelRefused:
    operator.warning(f"{service} refused a message", message)
    return refusal(message, status=400)


def _rejected(service: str, details: str, check: str, operator: OperatorLog) -> UpstreamRejected:
    # The details are for the operator, not for users. Later lines may have signed headers.
    line = details.partition("\n")[0][:_LOGGED_CHARACTERS]
    operator.error(f"{service} refuses us ({line}): check {check}")
    return not_set_up()


def _message_in(original: object) -> str:
    """The text of a container's error: of an OpenAI-style error, or any text."""
    try:
        return message_of(orjson.loads(str(original))["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return str(original or "")


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
        """Make a call that is answered with an event stream. Read it within `hanging_up`.

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
