"""`/v1/responses`: OpenAI's Responses API over HTTP."""

from __future__ import annotations

import secrets
from typing import Any

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.deadline import Deadline, TimedOut
from fargate_handler.gateway.event_stream import EventStream
from fargate_handler.gateway.http_answers import check_room_for_text, error_answer, json_answer
from fargate_handler.gateway.openai.responses.known_responses import (
    KnownResponse,
    find_response,
)
from fargate_handler.gateway.openai.responses.listed_items import listed_items
from fargate_handler.gateway.openai.responses.places import resumed_after
from fargate_handler.gateway.openai.responses.response_request import echoed, read_call
from fargate_handler.gateway.openai.responses.submitting import Submitted, submit
from fargate_handler.gateway.requests.submission import (
    IDEMPOTENCY_KEY,
    checked_key,
    leave_response,
    read_request,
    sender_of,
)
from fargate_handler.gateway.resumption import reading
from fargate_handler.gateway.whole_answer import WholeAnswer
from stream_core.encoders.block_encoder import BlockEncoder
from stream_core.encoders.port import LAST_EVENT_ID
from stream_core.encoders.responses.response_events import (
    NOTHING,
    ResponseEvents,
    ServerSentEvents,
)
from stream_core.encoders.responses.response_object import ResponseObject
from stream_core.log.response_stream import ResponseStream
from stream_core.protocol.errors import EvenflowError, NotFound, is_worth_repeating
from stream_core.protocol.http_contract import whole_number

TIMEOUT_HEADER = "Evenflow-Timeout-Ms"
_REQUEST_ID = "x-request-id"
_NO_RETRY = {"x-should-retry": "false"}
_CANCEL_SECONDS = 5.0
_AFTER = "starting_after"


class ResponsesEndpoint:
    """Makes responses, and gives those that were made."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def post(self, request: web.Request) -> web.StreamResponse:
        """A new response: as one object, as a stream of events, or in the background."""
        context = self._context
        sender = sender_of(request, context)
        key = checked_key(request.headers.get(IDEMPOTENCY_KEY))
        with context.orchestrator.held_requests.reading() as reading:
            call = read_call(await read_request(request, sender, context, reading))
            deadline = Deadline(_timeout_ms(call.request.timeout_ms, request), context.monotonic)
            made = await submit(context, sender, call, key, reading)
        try:
            return await self._answer(request, made, deadline)
        except EvenflowError as error:
            if is_worth_repeating(error) and not isinstance(error, TimedOut):
                raise
            answer = error_answer(error)
            answer.headers.update(_NO_RETRY)
            return answer
        finally:
            if not made.stays:
                leave_response(context, made.known.stream)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """A response as it is now, or with `stream=true` its events from a number on."""
        async with self._known(request) as known:
            if request.query.get("stream") == "true":
                after = whole_number(_AFTER, _last_number(request), NOTHING)
                return await self._stream(request, known, after, raises=False)
            return self._object(known)

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """Stop a response. One that has ended stays unchanged."""
        known = await self._known(request)
        await self._context.orchestrator.cancel(known.stream)
        await _ended(self._context, known.stream)
        return self._object(known)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Stop a response, and keep it no longer."""
        context = self._context
        known = await self._known(request)
        await context.orchestrator.cancel(known.stream)
        await context.orchestrator.delete(known.stream)
        return json_answer({"id": str(known.id), "object": "response", "deleted": True})

    async def input_items(self, request: web.Request) -> web.StreamResponse:
        """The items of a response's input."""
        known = await self._known(request)
        return json_answer(listed_items(known, request.query))
