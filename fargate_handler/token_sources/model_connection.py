"""How a source treats the connection to its model's server: what it says of the caller, standing still, hanging up."""

from __future__ import annotations

import asyncio
import string
from urllib.parse import quote

import aiohttp

from fargate_handler.token_sources.port import ModelRequest, TokenSink
from stream_core.policy.agents import metadata_header

# Everything printable but what marks an escape; a line's end, and what is no ASCII, is escaped.
_AS_IT_IS = string.punctuation.replace("%", "") + " "


def caller_headers(request: ModelRequest) -> dict[str, str]:
    """`Evenflow-…`, those that are known. Values are percent-escaped UTF-8, the metadata is JSON in ASCII."""
    caller = request.caller
    values = {
        "Evenflow-Session": caller.session,
        "Evenflow-User": caller.user,
        "Evenflow-Tenant": caller.tenant,
        "Evenflow-Message": caller.message_id,
    }
    headers = {name: quote(value, safe=_AS_IT_IS) for name, value in values.items() if value}
    headers["Evenflow-Attempt"] = str(request.attempt)
    if caller.metadata:
        headers["Evenflow-Metadata"] = metadata_header(dict(caller.metadata))
    return headers


_LOOK_SECONDS = 0.05


async def while_paused(sink: TokenSink) -> None:
    """Return when the sink takes tokens. What isn't read meanwhile holds the model's server back."""
    while sink.paused:  # noqa: ASYNC110 - a pause is rare and long
        await asyncio.sleep(_LOOK_SECONDS)


def abort_connection(answer: aiohttp.ClientResponse) -> None:
    """Reset the connection that `answer` comes over, if it still has one.

    A polite close over TLS waits for the other side, which does nothing but write: a model went on for seconds. It
    notices a reset at once.
    """
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
