"""The connection to a model's server: headers about the caller, pauses, and resets."""

from __future__ import annotations

import asyncio
import string
from urllib.parse import quote

import aiohttp

from evenflow.fargate_handler.token_sources.port import ModelRequest, TokenSink
from evenflow.stream_core.base.agents import metadata_header
from evenflow.stream_core.base.trace_context import TRACEPARENT

# Printable characters that need no escape. Line ends and non-ASCII characters are escaped.
_AS_IT_IS = string.punctuation.replace("%", "") + " "


def caller_headers(request: ModelRequest) -> dict[str, str]:
    """The headers `Evenflow-…` about the caller: percent-escaped, the metadata as ASCII JSON. And
    `traceparent`.
    """
    caller = request.caller
    values = {
        "Evenflow-Session": caller.session,
        "Evenflow-User": caller.user,
        "Evenflow-Tenant": caller.tenant,
        "Evenflow-Message": caller.message_id,
    }
    headers = {name: quote(value, safe=_AS_IT_IS) for name, value in values.items() if value}
    headers["Evenflow-Attempt"] = str(request.attempt)
    if request.traceparent:
        headers[TRACEPARENT] = request.traceparent
    if caller.metadata:
        headers["Evenflow-Metadata"] = metadata_header(dict(caller.metadata))
    return headers


_LOOK_SECONDS = 0.05


async def while_paused(sink: TokenSink) -> None:
    """Wait until the sink accepts tokens. Nothing is read meanwhile, so the server waits."""
    while sink.paused:  # noqa: ASYNC110 - a pause is rare and long
        await asyncio.sleep(_LOOK_SECONDS)


def abort_connection(answer: aiohttp.ClientResponse) -> None:
    """Reset the connection of `answer`, if it still has one.

    A close over TLS would wait for the other side, which only writes: a model went on for seconds.
    It notices a reset at once.
    """
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
