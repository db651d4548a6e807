"""Writes the answers of endpoints: JSON, errors, and checks of the memory for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import HttpVersion11, web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.deadline import TimedOut
from evenflow.stream_core.base.errors import EvenflowError, RequestTimeout, is_worth_repeating
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.http.http_contract import NEVER_CACHED, error_headers, kept_for

RequestHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# The answer to a poll has what is new, and at the end the whole text.
_TEXTS_IN_ANSWER = 2
# As much as aiohttp keeps for a client before it says so.
_SMALL_BYTES = 65_536
# The bytes of an HTTP/1.0 answer that nginx buffers before it passes them on, without
# X-Accel-Buffering: if two nginx are chained, the inner one removes that header.
_PROXY_BUFFER_BYTES = 4_096
ERROR_CODE = web.ResponseKey("error_code", str)
"""The code of the error in an answer."""
VIA_HEADER = "Evenflow-Via"
"""The header with the source from which this node has a response: `owner`, `peer` or `store`."""


def kept_by_caches(context: GatewayContext, stream: ResponseStream) -> dict[str, str]:
    """The headers of entries that shared caches may keep, but no longer than a heartbeat.

    So a revocation reaches caches as soon as connections. Text that may be retracted is not cached.
    """
    filters = context.filters
    retracts = filters is not None and filters.retracts(stream.channel.tenant)
    if retracts and not stream.log.closed:
        return NEVER_CACHED
    return kept_for(context.limits.heartbeat_seconds)


def json_answer(
    body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """A JSON answer that must not be cached."""
    all_headers = {**NEVER_CACHED, **(headers or {})}
    return web.Response(
        body=orjson.dumps(body), status=status, headers=all_headers, content_type="application/json"
    )


def check_room_for_text(context: GatewayContext, stream: ResponseStream) -> None:
    """Check that there is room for an answer with a whole text in it, before it is made.

    A small text needs no look.

    Raises:
        Overloaded: there is none. Within a second the slowest readers are disconnected.
    """
    check_room(context, _TEXTS_IN_ANSWER * stream.log.text_bytes)


def check_room(context: GatewayContext, size: int) -> None:
    """Check that there is room for an answer of `size` bytes of text, unless it is small.

    Raises:
        Overloaded: as for `check_room_for_text`.
    """
    memory = context.orchestrator.memory
    if size <= _SMALL_BYTES:
        return
    unsent = context.registry.unsent_bytes
    if unsent and unsent + size > memory.unsent.most:
        memory.reject()


def error_answer(error: EvenflowError) -> web.Response:
    """The answer for an error, with its headers."""
    headers = error_headers(error) | retry_headers(error)
    answer = json_answer(error.to_body(), error.status, headers)
    answer[ERROR_CODE] = error.code
    if isinstance(error, RequestTimeout):
        answer.force_close()
    return answer


def heartbeat_bytes(request: web.Request) -> int:
    """The bytes of a heartbeat that every proxy passes on at once."""
    return _PROXY_BUFFER_BYTES if request.version < HttpVersion11 else 1


def retry_headers(error: EvenflowError) -> dict[str, str]:
    """The headers with which OpenAI's and Anthropic's clients do not retry by themselves.

    A retry is useless after the client's own timeout, and for lasting errors.
    """
    lasting = isinstance(error, TimedOut) or not is_worth_repeating(error)
    return {"x-should-retry": "false"} if lasting else {}
