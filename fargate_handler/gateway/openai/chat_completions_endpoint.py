"""`POST /v1/chat/completions`."""

from __future__ import annotations

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.http_answers import error_answer
from fargate_handler.gateway.openai.completion_objects import CompletionObjects
from fargate_handler.gateway.openai.completion_request import CompletionCall, read_call
from fargate_handler.gateway.openai.completion_stream import CompletionStream
from fargate_handler.gateway.openai.deadline import TIMEOUT_HEADER, Deadline, TimedOut
from fargate_handler.gateway.openai.last_event import LAST_EVENT_ID, LastEvent, last_event
from fargate_handler.gateway.openai.models_endpoint import check_model
from fargate_handler.gateway.openai.request_body import read_body
from fargate_handler.gateway.openai.sender import sender_of
from fargate_handler.gateway.openai.submission import IDEMPOTENCY_KEY, checked_key, leave_response, submit_request
from fargate_handler.gateway.openai.whole_completion import WholeCompletion
from stream_core.errors import EvenflowError, is_worth_repeating
from stream_core.http_contract import whole_number
from stream_core.response_stream import ResponseStream

_REQUEST_ID = "x-request-id"
# OpenAI's clients repeat what failed. Who didn't want to wait any longer doesn't want that, and some errors only stay.
_NOT_AGAIN = {"x-should-retry": "false"}


class ChatCompletionsEndpoint:
    """Answers a conversation that the request brings whole."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def post(self, request: web.Request) -> web.StreamResponse:
        """The answer as one object, or as a stream of chunks."""
        context = self._context
        sender = sender_of(request.headers.get("Authorization"), context)
        key = checked_key(request.headers.get(IDEMPOTENCY_KEY))
        last = last_event(request.headers.get(LAST_EVENT_ID), has_key=key is not None)
        with context.orchestrator.held_requests.reading() as reading:
            call = read_call(await read_body(request, context.limits, reading))
            check_model(call.model, context)
            deadline = Deadline(_timeout_ms(call, request), context.monotonic)
            # A token's user was named by who opened the session; a request says what it likes.
            terms = call.terms.model_copy(update={"user": sender.user or call.terms.user})
            stream = await submit_request(context, sender, key, call.asked, terms)
            call = call.without_conversation()
        try:
            return await self._answer(request, call, stream, last, deadline)
        except EvenflowError as error:
            if is_worth_repeating(error) and not isinstance(error, TimedOut):
                raise
            answer = error_answer(error)
            answer.headers.update(_NOT_AGAIN)
            return answer
        finally:
            if key is None:
                leave_response(context, stream)

    async def _answer(
        self, request: web.Request, call: CompletionCall, stream: ResponseStream, last: LastEvent, deadline: Deadline
    ) -> web.StreamResponse:
        context = self._context
        created = int(context.wall_time() - (context.monotonic() - stream.created_at))
        objects = CompletionObjects(
            stream.response_id,
            created,
            call.model,
            include_usage=call.include_usage,
            tools=bool(call.asked.options.tools),
        )
        headers = {_REQUEST_ID: stream.response_id}
        if call.stream:
            return await CompletionStream(context, request, objects, deadline, headers).write(stream, last)
        return await WholeCompletion(context, request, objects, deadline, headers).write(stream)


def _timeout_ms(call: CompletionCall, request: web.Request) -> int | None:
    header = request.headers.get(TIMEOUT_HEADER)
    if call.timeout_ms is not None or header is None:
        return call.timeout_ms
    return whole_number(TIMEOUT_HEADER, header, 0, lowest=1)
