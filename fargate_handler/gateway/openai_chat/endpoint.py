"""`POST /v1/chat/completions`."""

from __future__ import annotations

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.deadline import Deadline
from evenflow.fargate_handler.gateway.http.answers import error_answer
from evenflow.fargate_handler.gateway.http.senders import record_user, sender_of
from evenflow.fargate_handler.gateway.openai_chat.request import CompletionCall, read_call
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
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import LAST_EVENT_ID, EventId
from evenflow.stream_core.protocols.openai_chat.encoder import ChunkEncoder
from evenflow.stream_core.protocols.openai_chat.whole_answer import CompletionObjects

_REQUEST_ID = "x-request-id"


class ChatCompletionsEndpoint:
    """Answers a conversation that is in the request."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def post(self, request: web.Request) -> web.StreamResponse:
        """The answer as one object, or as a stream of chunks."""
        context = self._context
        sender = sender_of(request)
        key = checked_key(request.headers.get(IDEMPOTENCY_KEY))
        last = last_event(request.headers.get(LAST_EVENT_ID), has_key=key is not None)
        with context.orchestrator.request_memory.reading() as reading:
            call = await read_request(request, sender, context, reading, read_call)
            record_user(request, sender, call.terms.user)
            model = chosen_model(call.model, context, sender.tenant, sender.session)
            call = call.of_model(model)
            deadline = Deadline(timeout_ms(request, call.timeout_ms), context.monotonic)
            terms = sender.named_in(call.terms)
            stream = await submit_request(context, sender, key, call.request, terms, reading.bytes)
            call = call.without_conversation()
        try:
            return await self._answer(request, call, stream, last, deadline)
        except EvenflowError as error:
            return error_answer(error)
        finally:
            if key is None:
                leave_response(context, stream)

    async def _answer(
        self,
        request: web.Request,
        call: CompletionCall,
        stream: ResponseStream,
        last: EventId,
        deadline: Deadline,
    ) -> web.StreamResponse:
        context = self._context
        created = int(context.wall_time() - (context.monotonic() - stream.created_at))
        objects = CompletionObjects(
            stream.response_id,
            created,
            call.model,
            include_usage=call.include_usage,
            tools=bool(call.request.options.tools),
        )
        headers = {_REQUEST_ID: stream.response_id}
        if call.stream:
            stream, point = await resume_appending(context, stream, last)
            encoder = ChunkEncoder(objects, stream, point, context.limits.frame_characters)
            return await EventStream(context, request, encoder, headers, deadline=deadline).write(
                stream
            )
        answer = WholeAnswer(context, request, objects.whole, deadline, headers)
        return await answer.write(stream)
