"""`POST /v1/messages`."""

from __future__ import annotations

from typing import NamedTuple

from aiohttp import web

from evenflow.fargate_handler.gateway.anthropic.request import MessagesCall, read_call
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.deadline import Deadline
from evenflow.fargate_handler.gateway.http.error_shapes import (
    ANTHROPIC_REQUEST_ID,
    anthropic_error_answer,
)
from evenflow.fargate_handler.gateway.http.senders import record_user, sender_of
from evenflow.fargate_handler.gateway.requests.known_models import chosen_model
from evenflow.fargate_handler.gateway.requests.resuming import last_event, resume_appending
from evenflow.fargate_handler.gateway.requests.submission import (
    IDEMPOTENCY_KEY,
    checked_key,
    leave_response,
    read_request,
    submit_request,
    timeout_ms,
)
from evenflow.fargate_handler.gateway.sse.event_stream import EventStream
from evenflow.fargate_handler.gateway.sse.whole_answer import WholeAnswer
from evenflow.stream_core.base.errors import EvenflowError, InvalidRequest
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.encoding.port import LAST_EVENT_ID, EventId
from evenflow.stream_core.encoding.serial_blocks import SerialBlocks
from evenflow.stream_core.http.routes import ANTHROPIC_VERSION
from evenflow.stream_core.protocols.anthropic.encoder import (
    PING,
    AnthropicObjects,
    error_object,
    thoughts_before,
)

# The first version has other events. Later ones have the same, and only ask differently.
_OTHER_EVENTS = "2023-01-01"


class _AcceptedCall(NamedTuple):
    """An accepted request."""

    call: MessagesCall
    key: str | None
    stream: ResponseStream
    last: EventId
    deadline: Deadline


class MessagesEndpoint:
    """Answers a conversation that is in the request."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Answer with one message, or with a stream of events."""
        try:
            accepted = await self._accept(request)
        except EvenflowError as error:
            return anthropic_error_answer(error)
        try:
            return await self._answer(request, accepted)
        except EvenflowError as error:
            return anthropic_error_answer(error, accepted.stream.response_id)
        finally:
            if accepted.key is None:
                leave_response(self._context, accepted.stream)

    async def _accept(self, request: web.Request) -> _AcceptedCall:
        context = self._context
        sender = sender_of(request)
        _check_version(request.headers.get(ANTHROPIC_VERSION))
        key = checked_key(request.headers.get(IDEMPOTENCY_KEY))
        last = last_event(request.headers.get(LAST_EVENT_ID), has_key=key is not None)
        with context.orchestrator.request_memory.reading() as reading:
            call = await read_request(request, sender, context, reading, read_call)
            record_user(request, sender, call.terms.user)
            model = chosen_model(call.model, context, sender.tenant, sender.session)
            call = call.of_model(model)
            deadline = Deadline(timeout_ms(request), context.monotonic)
            terms = sender.named_in(call.terms)
            stream = await submit_request(context, sender, key, call.request, terms, reading.bytes)
            return _AcceptedCall(call.without_conversation(), key, stream, last, deadline)

    async def _answer(self, request: web.Request, accepted: _AcceptedCall) -> web.StreamResponse:
        context, call, stream = self._context, accepted.call, accepted.stream
        headers = {ANTHROPIC_REQUEST_ID: stream.response_id}
        if not call.stream:
            objects = self._objects(call, stream)
            answer = WholeAnswer(
                context,
                request,
                objects.whole,
                accepted.deadline,
                headers,
                make_error=lambda error: error_object(error, stream.response_id),
            )
            return await answer.write(stream)
        stream, point = await resume_appending(context, stream, accepted.last)
        objects = self._objects(call, stream, thoughts_before(stream, point))
        max_characters = context.limits.frame_characters
        encoder = BlockEncoder(objects, stream, point, max_characters, SerialBlocks)
        events = EventStream(
            context, request, encoder, headers, deadline=accepted.deadline, heartbeat=PING
        )
        return await events.write(stream)

    def _objects(
        self, call: MessagesCall, stream: ResponseStream, thoughts: int = 0
    ) -> AnthropicObjects:
        return AnthropicObjects(
            stream.response_id,
            call.model,
            thinking=call.thinking,
            hidden_blocks=0 if call.thinking else thoughts,
        )


def _check_version(version: str | None) -> None:
    if version == _OTHER_EVENTS:
        raise InvalidRequest(
            f"{ANTHROPIC_VERSION} must be 2023-06-01 or later; nothing was generated",
            code="unsupported_value",
            param=ANTHROPIC_VERSION,
        )
