"""`/agui`: what AG-UI's `HttpAgent` calls."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from evenflow.fargate_handler.gateway.ag_ui.messages import offered, turns_of
from evenflow.fargate_handler.gateway.bodies.json_values import check_json, written
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.resumption import Progress, resume
from evenflow.fargate_handler.gateway.http.answers import json_answer
from evenflow.fargate_handler.gateway.http.request_body import read_body
from evenflow.fargate_handler.gateway.http.senders import reading_line, sender_of
from evenflow.fargate_handler.gateway.requests.agent_request import agent_request_of, submit_as_next
from evenflow.fargate_handler.gateway.requests.resuming import last_event
from evenflow.fargate_handler.gateway.requests.submission import (
    read_request,
)
from evenflow.fargate_handler.gateway.sse.event_stream import EVENT_STREAM_HEADERS, EventStream
from evenflow.fargate_handler.orchestrator.incoming_message import run_channel
from evenflow.stream_core.auth.rights import Right, check_right
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder
from evenflow.stream_core.encoding.port import LAST_EVENT_ID, EventId
from evenflow.stream_core.log.response_log import NOTHING_YET, ResumePoint, slice_of
from evenflow.stream_core.protocols.ag_ui import encoder as agui_events
from evenflow.stream_core.protocols.ag_ui.bodies import FORWARDED, RUN_NAME, RUN_REQUEST, RunRequest
from evenflow.stream_core.protocols.ag_ui.encoder import AgUiEvents
from evenflow.stream_core.protocols.ai_sdk.bodies import Stopped
from evenflow.stream_core.protocols.evenflow.messages import parse
from evenflow.stream_core.protocols.openai_chat.parameters import AnswerParameters
from evenflow.stream_core.session.conversation import Turn

_NOTHING = EventId(NOTHING_YET, 1)
_MESSAGE_ID = "run"
"""A run is the only message of its channel, whatever its client sends when it returns."""


class RunEndpoint:
    """Runs of AG-UI. A thread and a run name one response, also for repeated requests."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def post(self, request: web.Request) -> web.StreamResponse:
        """The events of a run. A client that has some of them receives the rest."""
        context, sender = self._context, sender_of(request)
        header = request.headers.get(LAST_EVENT_ID)
        resumed_at = last_event(header, has_key=True) if header else None
        # The conversation stays in memory for as long as it may have to be sent back.
        with context.orchestrator.request_memory.reading() as reading:
            run, messages = await read_request(request, sender, context, reading, _parse)
            channel = run_channel(
                sender.tenant, sender.own(run.thread_id), run.run_id, sender.session
            )
            stream = None
            if resumed_at is not None or _ends_in_answer(run):
                stream = await context.orchestrator.newest(channel)
            if stream is not None:
                check_right(Right.READ, sender.may)
            if stream is None and not (run.messages or run.resume):
                return _empty_run(run)
            if stream is None:
                line = reading_line(context, sender)
                turns, parameters = await context.work.run(line, reading.bytes, _conversation, run)
                whole = agent_request_of(context, sender, turns, parameters)
                stream, _ = await submit_as_next(
                    context, sender, channel, _MESSAGE_ID, whole, reading.bytes
                )
            last = resumed_at or _cursor_in(messages, stream.response_id)
            return await self._answer(request, run, messages, stream, last)

    async def stop(self, request: web.Request) -> web.Response:
        """Stop a run and its model, for all its readers."""
        context, sender = self._context, sender_of(request)
        body = await read_body(request, context, context.limits.message_bytes)
        run_name = parse(RUN_NAME, body)
        channel = run_channel(
            sender.tenant, sender.own(run_name.thread_id), run_name.run_id, sender.session
        )
        stream = await context.orchestrator.newest(channel)
        if stream is not None:
            await context.orchestrator.cancel(stream)
        return json_answer(Stopped().model_dump())

    async def _answer(
        self,
        request: web.Request,
        run: RunRequest,
        messages: list[dict[str, Any]],
        stream: ResponseStream,
        last: EventId,
    ) -> web.StreamResponse:
        context = self._context
        progress = Progress(last.last_index, last.epoch, LAST_EVENT_ID)
        stream, point = await resume(context, stream.response_id, stream.channel, progress)
        if point.restarted is not None:
            # What the client has is not on record: the answer is sent from its beginning.
            point = ResumePoint(0)
        delivered = slice_of(stream.log.entries[: point.next_index], 0).current
        events = AgUiEvents(run.thread_id, run.run_id, stream.response_id, messages, delivered)
        encoder = BlockEncoder(events, stream, point, context.limits.frame_characters)
        return await EventStream(context, request, encoder, {}).write(stream)


def _parse(body: bytes | bytearray) -> tuple[RunRequest, list[dict[str, Any]]]:
    """A parsed request, and its messages as they may have to be sent back."""
    run = parse(RUN_REQUEST, body)
    messages = [message.model_dump(by_alias=True, exclude_unset=True) for message in run.messages]
    check_json(messages, "messages")
    return run, messages


def _conversation(run: RunRequest) -> tuple[tuple[Turn, ...], AnswerParameters]:
    """The conversation of a request, and the parameters of its answer.

    Raises:
        InvalidRequest: it is wrong.
    """
    if run.resume:
        raise InvalidRequest(
            "resume answers interrupts, and no run here has any; nothing was generated",
            code="unsupported_parameter",
            param="resume",
        )
    forwarded = run.forwarded_props if isinstance(run.forwarded_props, dict) else {}
    parameters = parse(FORWARDED, written(forwarded, "forwardedProps").encode())
    if run.tools:
        parameters = parameters.model_copy(update={"tools": offered(run.tools)})
    return turns_of(run.messages, run.context), parameters


def _empty_run(run: RunRequest) -> web.Response:
    """The answer to a run without messages, which a page sends before the first question."""
    events = agui_events.empty_run(run.thread_id, run.run_id)
    return web.Response(body=events, headers=EVENT_STREAM_HEADERS)


def _ends_in_answer(run: RunRequest) -> bool:
    """Whether the conversation ends in an answer, so that its client resumes that."""
    return bool(run.messages) and run.messages[-1].role in ("assistant", "reasoning")


def _cursor_in(messages: list[dict[str, Any]], response_id: str) -> EventId:
    """The furthest cursor in the messages of a response. Without any, its beginning.

    Raises:
        InvalidRequest: a cursor is invalid.
    """
    cursors = [_NOTHING]
    for message in messages:
        if str(message.get("id", "")).startswith(response_id):
            for holder in (message, *(message.get("toolCalls") or ())):
                match holder.get("metadata"):
                    case {agui_events.METADATA: {"cursor": str(cursor)}}:
                        cursors.append(EventId.parse(cursor, ends=False))
    return max(cursors, key=lambda place: place.last_index)
