"""`/v1/responses`: OpenAI's Responses API over HTTP."""

from __future__ import annotations

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.deadline import Deadline
from evenflow.fargate_handler.gateway.connections.resumption import (
    Progress,
    Resumption,
    reading,
    resume,
)
from evenflow.fargate_handler.gateway.http.answers import (
    check_room_for_text,
    error_answer,
    json_answer,
)
from evenflow.fargate_handler.gateway.http.senders import record_user, sender_of
from evenflow.fargate_handler.gateway.openai_responses.known_responses import (
    EarlierResponses,
    KnownResponse,
    find_response,
)
from evenflow.fargate_handler.gateway.openai_responses.listed_items import listed_items
from evenflow.fargate_handler.gateway.openai_responses.request import (
    ResponseCall,
    echoed,
    read_call,
)
from evenflow.fargate_handler.gateway.openai_responses.submitting import submit
from evenflow.fargate_handler.gateway.requests.submission import (
    IDEMPOTENCY_KEY,
    checked_key,
    leave_response,
    read_request,
    timeout_ms,
)
from evenflow.fargate_handler.gateway.sse.event_stream import EventStream
from evenflow.fargate_handler.gateway.sse.whole_answer import WholeAnswer
from evenflow.stream_core.base.errors import EvenflowError, Gone, InvalidRequest
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.encoding.blocks import SealingBlocks
from evenflow.stream_core.encoding.port import LAST_EVENT_ID
from evenflow.stream_core.http.http_contract import whole_number
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.protocols.openai_responses.encoder import (
    MOST_CLOSING_ENTRIES,
    NOTHING,
    ResponseEvents,
    ServerSentEvents,
    resume_index_of,
)
from evenflow.stream_core.protocols.openai_responses.whole_answer import ResponseObject

STARTING_AFTER = "starting_after"


def last_number(request: web.Request) -> int:
    """The number of the last event that the client has, by the query or `Last-Event-ID`.

    Raises:
        InvalidRequest: it is not a number.
    """
    if STARTING_AFTER in request.query:
        return whole_number(STARTING_AFTER, request.query[STARTING_AFTER], NOTHING)
    return whole_number(LAST_EVENT_ID, request.headers.get(LAST_EVENT_ID), NOTHING)


def check_can_resume(request: web.Request, *, has_key: bool) -> None:
    """Check that a request that makes a response doesn't go on in one, unless its key names it.

    Raises:
        InvalidRequest: it does, or what it has is not a number.
    """
    if last_number(request) != NOTHING and not has_key:
        raise InvalidRequest(
            f"{LAST_EVENT_ID} needs the Idempotency-Key of the response that broke off; nothing "
            "was generated. GET the response, or send its key",
            code="invalid_field",
            param=LAST_EVENT_ID,
        )


async def resumed_after(context: GatewayContext, stream: ResponseStream, number: int) -> Resumption:
    """The response, and the point after `number` at which a client resumes.

    Raises:
        InvalidRequest: the response never had such an event.
        Gone: what the client has is not on record.
        EvenflowError: as for `resume`.
    """
    resume_index = resume_index_of(number)
    # If the entry has begun, its node may be lost before it is stored. Then it may differ.
    last = resume_index.last_index + resume_index.has_begun_next
    progress = Progress(last, resume_index.epoch, STARTING_AFTER)
    try:
        resumption = await resume(context, stream.response_id, stream.channel, progress)
    except InvalidRequest:
        # The events after the last entry have numbers, too.
        current_log = (await context.orchestrator.find(stream.response_id, stream.channel)).log
        if (
            not current_log.closed
            or resume_index.last_index > current_log.next_index + MOST_CLOSING_ENTRIES
        ):
            raise
        progress = progress._replace(after=current_log.next_index - 1)
        resumption = await resume(context, stream.response_id, stream.channel, progress)
    if resumption.point.restarted is not None:
        raise Gone(
            "what you have of this response is not on record, since its node was lost; drop it, "
            f"and ask again without {STARTING_AFTER}",
            code="response_restarted",
            param=STARTING_AFTER,
        )
    if resume_index.has_begun_next:
        # The entry is sent again. Events that the client has are left out by their numbers.
        return resumption._replace(point=ResumePoint(min(last, resumption.point.next_index)))
    return resumption


_REQUEST_ID = "x-request-id"
_CANCEL_SECONDS = 5.0
# This API's name of a field, by its name in chat completions.
_FIELDS = {
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
}


class ResponsesEndpoint:
    """Creates responses, and returns earlier ones."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Create a response: as one object, as a stream of events, or in the background."""
        context = self._context
        sender = sender_of(request)
        key = checked_key(request.headers.get(IDEMPOTENCY_KEY))
        check_can_resume(request, has_key=key is not None)
        with context.orchestrator.request_memory.reading() as request_memory:
            call = await read_request(request, sender, context, request_memory, read_call)
            record_user(request, sender, call.terms.user)
            deadline = Deadline(timeout_ms(request, call.request.timeout_ms), context.monotonic)
            earlier = EarlierResponses(context, sender, request_memory)
            response, stays = await submit(context, sender, call, earlier, key)
        try:
            return await self._answer(request, call, response, deadline)
        except EvenflowError as error:
            error.name_param(_FIELDS)
            return error_answer(error)
        finally:
            if not stays:
                leave_response(context, response.stream)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Return a response as it is now, or with `stream=true` its events from a number on."""
        response = await self._find(request)
        if request.query.get("stream") == "true":
            return await self._stream(request, response, Deadline(None, self._context.monotonic))
        return self._object(response)

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """Stop a response. One that has ended stays unchanged."""
        context, response = self._context, await self._find(request)
        await context.orchestrator.cancel(response.stream)
        if not response.stream.log.closed:
            await _end_of(context, response.stream)
        return self._object(response)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Stop a response, and delete it."""
        response = await self._find(request)
        await self._context.orchestrator.end_session(response.stream.channel)
        return json_answer({"id": str(response.id), "object": "response", "deleted": True})

    async def input_items(self, request: web.Request) -> web.StreamResponse:
        """List the items of a response's input."""
        response = await self._find(request)
        return json_answer(listed_items(response.id, response.request, request.query))

    async def _find(self, request: web.Request) -> KnownResponse:
        context = self._context
        with context.orchestrator.request_memory.reading() as request_memory:
            response_id = request.match_info["response_id"]
            return await find_response(context, sender_of(request), response_id, request_memory)

    async def _answer(
        self, request: web.Request, call: ResponseCall, response: KnownResponse, deadline: Deadline
    ) -> web.StreamResponse:
        if call.stream:
            return await self._stream(request, response, deadline, fails=not call.background)
        if call.background:
            return self._object(response)
        about, headers = about_response(self._context, response), {_REQUEST_ID: str(response.id)}
        answer = WholeAnswer(
            self._context,
            request,
            about.at_present,
            deadline,
            headers,
            make_error=lambda error: about.failed(error.to_object()),
        )
        return await answer.write(response.stream)

    async def _stream(
        self,
        request: web.Request,
        response: KnownResponse,
        deadline: Deadline,
        *,
        fails: bool = False,
    ) -> web.StreamResponse:
        """The events of a response.

        Args:
            fails: whether an error before the first event fails the request. Otherwise the
                stream begins at once, and all errors are events.
        """
        context, last_seen = self._context, last_number(request)
        stream, point = await resumed_after(context, response.stream, last_seen)
        about = about_response(context, response)
        events = ResponseEvents(about, ServerSentEvents(), last_seen, raises=fails)
        max_characters = context.limits.frame_characters
        encoder = BlockEncoder(events, stream, point, max_characters, SealingBlocks)
        headers = {_REQUEST_ID: str(response.id)}
        answer = EventStream(
            context, request, encoder, headers, at_once=not fails, deadline=deadline
        )
        return await answer.write(stream)

    def _object(self, response: KnownResponse) -> web.Response:
        check_room_for_text(self._context, response.stream)
        return json_answer(about_response(self._context, response).at_present(response.stream))


async def _end_of(context: GatewayContext, stream: ResponseStream) -> None:
    """Wait until a replica of a cancelled response has its end, but not for long."""
    give_up_at = context.monotonic() + _CANCEL_SECONDS
    with reading(stream, "http") as reader:
        in_time = True
        while in_time and not (stream.log.closed or reader.left_behind):
            in_time = await reader.wait(give_up_at - context.monotonic())


def about_response(context: GatewayContext, response: KnownResponse) -> ResponseObject:
    """The builder of a response's object."""
    stream: ResponseStream = response.stream
    created = int(context.wall_time() - (context.monotonic() - stream.created_at))
    return ResponseObject(response.id, created, echoed(response.request))
