"""`/api/chat`: what AI SDK's `useChat` calls with its default transport."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from aiohttp import web

from evenflow.fargate_handler.gateway.ai_sdk.messages import turns_of
from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.resumption import Progress, resume
from evenflow.fargate_handler.gateway.evenflow.events_endpoint import check_stays
from evenflow.fargate_handler.gateway.http.answers import check_room, json_answer
from evenflow.fargate_handler.gateway.http.request_body import read_body
from evenflow.fargate_handler.gateway.http.senders import (
    Sender,
    digest_of,
    reading_line,
    sender_of,
)
from evenflow.fargate_handler.gateway.http.verified_request import number_of_query
from evenflow.fargate_handler.gateway.requests.agent_request import agent_request_of, submit_as_next
from evenflow.fargate_handler.gateway.requests.resuming import last_event
from evenflow.fargate_handler.gateway.requests.submission import (
    IDEMPOTENCY_KEY,
    checked_key,
    read_request,
)
from evenflow.fargate_handler.gateway.sse.event_stream import EventStream
from evenflow.fargate_handler.orchestrator.incoming_message import chat_channel
from evenflow.fargate_handler.orchestrator.session_messages import AnsweredMessage
from evenflow.stream_core.base.channel import CHAT_OF_INTERFACE, Channel
from evenflow.stream_core.base.errors import InvalidRequest, NotFound
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.encoding.port import LAST_EVENT_ID, EventId
from evenflow.stream_core.log.response_log import NOTHING_YET, ResponseState, ResumePoint
from evenflow.stream_core.protocols.ai_sdk.bodies import (
    CHAT_REQUEST,
    STOP_REQUEST,
    ChatRequest,
    Stopped,
    StopRequest,
)
from evenflow.stream_core.protocols.ai_sdk.encoder import UIMessageChunks
from evenflow.stream_core.protocols.ai_sdk.parts import ui_message
from evenflow.stream_core.protocols.evenflow.messages import parse
from evenflow.stream_core.session.conversation import Turn

_HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
_REQUEST_ID = "x-request-id"
# An answer that ended without a reader can be read once more within this time.
_LATE_SECONDS = 10.0
_CONTINUES = "more_"


class _ParsedChat(NamedTuple):
    """A parsed request. `echo`: what of it is sent back when the chat is loaded again."""

    request: ChatRequest
    turns: tuple[Turn, ...]
    echo: dict[str, Any]


class ChatEndpoint:
    """Chats of AI SDK. The client chooses a chat's id, which is unique to the sender."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def post(self, request: web.Request) -> web.StreamResponse:
        """The answer to a conversation, as a stream."""
        context, sender = self._context, sender_of(request)
        key = checked_key(request.headers.get(IDEMPOTENCY_KEY))
        last = last_event(request.headers.get(LAST_EVENT_ID), has_key=key is not None)
        with context.orchestrator.request_memory.reading() as reading:
            chat = await read_request(request, sender, context, reading, _parse)
            body = chat.request
            channel = chat_channel(sender.tenant, sender.own(body.id), sender.session)
            whole = agent_request_of(context, sender, chat.turns, body)
            whole = whole._replace(whole=replace(whole.whole, echo=chat.echo))
            name = secrets.token_hex(16) if key is None else digest_of(key, sender)
            message_id = _message_id(body, name)
            stream, _ = await submit_as_next(
                context, sender, channel, message_id, whole, reading.bytes, CHAT_OF_INTERFACE
            )
            del chat, body, whole
        return await self._answer(request, stream, last)

    async def messages(self, request: web.Request) -> web.Response:
        """The messages of a chat in `useChat`'s form, with the answer so far.

        They are those of the newest request. `limit` selects the newest ones of these, and
        `before_id` those before that message.
        """
        context, sender, channel = self._context, sender_of(request), _channel(request)
        newest = await self._newest(sender, channel)
        messages = [] if newest is None else await self._messages_of(sender, channel, newest)
        if newest is not None:
            check_room(context, newest.size)
        before_id = request.query.get("before")
        if before_id is not None:
            messages = messages[: _place_of(before_id, messages)]
        first = max(0, len(messages) - number_of_query(request, "limit", len(messages), lowest=1))
        next_before = messages[first].get("id") if first else None
        return json_answer({"messages": messages[first:], "nextBefore": next_before})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """The running answer, from its beginning. 204 if there is none.

        With `response_id` it is that answer, also after its end, from `Last-Event-ID` on. `moving`
        is as for `GET /chat/message/{response_id}/events`.
        """
        check_stays(request, self._context)
        channel, orchestrator = _channel(request), self._context.orchestrator
        last = last_event(request.headers.get(LAST_EVENT_ID), has_key=True)
        response_id = request.query.get("response_id")
        if response_id is not None:
            named_stream = await orchestrator.find(response_id, channel)
            return await self._answer(request, named_stream, last, at_once=True)
        if last.last_index != NOTHING_YET:
            raise InvalidRequest(
                f"{LAST_EVENT_ID} needs the `response_id` of the answer that broke off; nothing "
                "was changed",
                code="invalid_field",
                param=LAST_EVENT_ID,
            )
        stream = await orchestrator.newest(channel)
        if stream is None or not self._is_live(stream):
            return web.Response(status=204)
        return await self._answer(request, stream, last)

    async def stop(self, request: web.Request) -> web.Response:
        """Stop the running answer and its model, for all its readers."""
        context, channel = self._context, _channel(request)
        body = await read_body(request, context, context.limits.message_bytes)
        stop_request = parse(STOP_REQUEST, body) if body else StopRequest()
        stream = await context.orchestrator.newest(channel)
        if stream is not None and stop_request.active_stream_id in (None, stream.response_id):
            await context.orchestrator.cancel(stream)
        return json_answer(Stopped().model_dump())

    async def _newest(self, sender: Sender, channel: Channel) -> AnsweredMessage | None:
        """The newest request of a chat. Its text counts in the sender's reading rate."""
        work, line = self._context.work, reading_line(self._context, sender)
        work.check(line)
        newest = await self._context.orchestrator.messages.newest(channel)
        work.count(line, len((newest and newest.text) or ""))
        return newest

    async def _messages_of(
        self, sender: Sender, channel: Channel, newest: AnsweredMessage
    ) -> list[dict[str, Any]]:
        """The messages of the newest request and its answer. Empty if they are no longer stored."""

        async def text() -> str | None:
            return newest.text or None

        line, key = reading_line(self._context, sender), (newest.entry.response_id, channel)
        request = await self._context.work.read_stored(line, key, text)
        return [] if request is None else _with_answer(request.echo.get("messages", ()), newest)

    def _is_live(self, stream: ResponseStream) -> bool:
        if not stream.log.closed:
            return True
        ended_at = stream.ended_at or 0.0
        is_late = self._context.monotonic() - ended_at > _LATE_SECONDS
        return not is_late and stream.state is not ResponseState.CANCELLED

    async def _answer(
        self, request: web.Request, stream: ResponseStream, last: EventId, *, at_once: bool = False
    ) -> web.StreamResponse:
        context = self._context
        progress = Progress(last.last_index, last.epoch, LAST_EVENT_ID)
        stream, point = await resume(context, stream.response_id, stream.channel, progress)
        afresh = point.restarted is not None
        if afresh:
            # What the client has is not on record: the answer is sent from its beginning.
            point = ResumePoint(0)
        continues = stream.message_id.startswith(_CONTINUES)
        message_id = None if continues else stream.response_id
        chunks = UIMessageChunks(message_id, afresh=afresh)
        encoder = BlockEncoder(chunks, stream, point, context.limits.frame_characters)
        headers = _HEADERS | {_REQUEST_ID: stream.response_id}
        answer = EventStream(context, request, encoder, headers, at_once=at_once)
        return await answer.write(stream)


def _channel(request: web.Request) -> Channel:
    sender = sender_of(request)
    return chat_channel(sender.tenant, sender.own(request.match_info["chat_id"]), sender.session)


def _message_id(request: ChatRequest, name: str) -> str:
    """The id of the message for a request. It shows whether the answer continues an earlier one."""
    return name if request.messages[-1].role != "assistant" else f"{_CONTINUES}{name}"


def _parse(body: bytes | bytearray) -> _ParsedChat:
    request = parse(CHAT_REQUEST, body)
    return _ParsedChat(request, turns_of(request.messages), _echo_of(request))


def _echo_of(request: ChatRequest) -> dict[str, Any]:
    """The messages as the chat's client sent them, for its next reload."""
    messages = [
        message.model_dump(by_alias=True, exclude_unset=True) for message in request.messages
    ]
    check_json(messages, "messages")
    return {"messages": messages}


def _with_answer(
    request_messages: Sequence[dict[str, Any]], newest: AnsweredMessage
) -> list[dict[str, Any]]:
    """The messages of a request, with its answer."""
    messages, contents = list(request_messages), newest.outcome.contents
    if messages and contents:
        has_ended = newest.last_index is None
        answer = ui_message(newest.entry.response_id, contents, has_ended=has_ended)
        if newest.entry.message_id.startswith(_CONTINUES):
            # In the client the answer is a further step of its last message.
            last = messages[-1]
            messages[-1] = last | {"parts": [*last.get("parts", ()), *answer["parts"]]}
        else:
            messages.append(answer)
    return messages


def _place_of(message_id: str, messages: Sequence[dict[str, Any]]) -> int:
    for place, message in enumerate(messages):
        if message.get("id") == message_id:
            return place
    raise NotFound(
        "this chat has no such message as `before_id`; read without it for the newest ones",
        code="message_not_found",
        param="before",
    )
