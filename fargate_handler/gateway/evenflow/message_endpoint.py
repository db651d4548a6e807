"""`/chat/message`: send, poll and cancel."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.resumption import Progress, reading
from evenflow.fargate_handler.gateway.evenflow.other_connections import notify_others
from evenflow.fargate_handler.gateway.http.answers import (
    VIA_HEADER,
    check_room_for_text,
    json_answer,
)
from evenflow.fargate_handler.gateway.http.called_url import path_prefix_of
from evenflow.fargate_handler.gateway.http.connection import when_half_closed
from evenflow.fargate_handler.gateway.http.cookies import events_cookie, ticket_of
from evenflow.fargate_handler.gateway.http.request_body import read_body
from evenflow.fargate_handler.gateway.http.senders import first_token_ms
from evenflow.fargate_handler.gateway.http.verified_request import (
    address_of,
    claims_of,
    epoch_of_query,
    number_of_query,
    requested_resumption,
    requested_stream,
    user_of,
)
from evenflow.fargate_handler.gateway.requests.payload_conversation import conversation_in
from evenflow.fargate_handler.gateway.sse.event_reader import PROBE_SECONDS
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage, WholeRequest
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.stream_core.auth.rights import Right, check_right
from evenflow.stream_core.base.trace_context import TRACEPARENT, known_traceparent
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.http.content_encoding import GZIP
from evenflow.stream_core.http.routes import EVENFLOW
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.http_bodies import MessageAccepted, ResponseStatus
from evenflow.stream_core.protocols.evenflow.long_poll import (
    DEFAULT_TIMEOUT_MS,
    Polled,
    PollPatience,
    polls_per_half_minute,
)
from evenflow.stream_core.protocols.evenflow.messages import (
    POSTED_MESSAGE,
    POSTED_RESULT,
    PostedMessage,
    parse,
)
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.records.reader_record import ReaderFigures
from evenflow.stream_core.session.tool_steps import CANCELLED_CALL
from evenflow.stream_core.tenants.charges import Caller


class MessageEndpoint:
    """The calls for clients without a WebSocket."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def post(self, request: web.Request) -> web.Response:
        """Accept a message. The answer is 202."""
        context = self._context
        claims = claims_of(request)
        sender = context.access.sender(claims.channel.tenant, address_of(request, context.site))
        line = Line(*sender)
        context.work.check(line)
        body = await read_body(request, context, context.limits.message_bytes, (GZIP,))
        context.work.count(line, len(body))
        message, whole = await context.work.read(line, body, _parse)
        if message.ticket or message.cookie:
            check_right(Right.READ, claims.may)
        # The message is accepted even if its client disconnects now.
        incoming = IncomingMessage.of_chat(
            claims,
            message,
            Caller(line.tenant, address=line.address),
            known_traceparent(request.headers.get(TRACEPARENT)),
            first_token_ms(request),
            whole,
        )
        stream = await asyncio.shield(context.background.run(self._submit(incoming)))
        accepted = MessageAccepted(
            response_id=stream.response_id, message_id=stream.message_id, status=stream.state
        )
        if message.ticket:
            accepted.ticket, _ = ticket_of(context.access, claims, stream.response_id)
        answer = json_answer(accepted.model_dump(exclude_defaults=True), status=202)
        if message.cookie:
            prefix = path_prefix_of(request, context.site)
            cookie = events_cookie(context.access, claims, stream.response_id, prefix)
            answer.headers.add("Set-Cookie", cookie)
        return answer

    async def _submit(self, incoming: IncomingMessage) -> ResponseStream:
        context, began_at = self._context, self._context.monotonic()
        stream, duplicate = await context.orchestrator.submit(incoming)
        if not duplicate:
            # Its client reads the answer next, and the store need not be asked again.
            context.orchestrator.ended_sessions.note_stored(incoming.channel, began_at)
            notify_others(context.registry, incoming, stream.response_id)
        return stream

    async def cancel(self, request: web.Request) -> web.Response:
        """Cancel a response and stop its model."""
        stream = await requested_stream(request, self._context)
        status = await self._context.orchestrator.cancel(stream)
        return json_answer(
            ResponseStatus(response_id=stream.response_id, status=status).model_dump()
        )

    async def take_result(self, request: web.Request) -> web.Response:
        """Accept the result of a client's tool, or the cancel of its call."""
        context = self._context
        stream = await requested_stream(request, context)
        body = await read_body(request, context, context.limits.message_bytes, (GZIP,))
        result = parse(POSTED_RESULT, body)
        text = CANCELLED_CALL if result.text is None else result.text
        await context.orchestrator.take_result(stream, result.call_id, text)
        return json_answer(
            ResponseStatus(response_id=stream.response_id, status=stream.state).model_dump()
        )

    async def poll(self, request: web.Request) -> web.Response:
        """The text from `from_index` on. Waits as the rules of the long poll say."""
        limits, metrics = self._context.limits, self._context.metrics
        timeout_ms = min(
            number_of_query(request, "timeout_ms", DEFAULT_TIMEOUT_MS), limits.poll_timeout_max_ms
        )
        from_index = number_of_query(request, "from_index", 0)
        progress = Progress(from_index - 1, epoch_of_query(request), "from_index")
        stream, point = await requested_resumption(
            request, self._context, progress, timeout_ms / 1000
        )
        stream.record_poll()
        figures = ReaderFigures(
            stream, EVENFLOW.name, "poll", point.next_index, self._context.monotonic()
        )
        ready_at = await self._wait(stream, request, point.next_index, timeout_ms / 1000)
        check_room_for_text(self._context, stream)
        answer = json_answer(_polled(stream, point).to_body(), headers={VIA_HEADER: stream.via})
        self._context.measures.delivered.value += stream.log.next_index - point.next_index
        metrics.distribution(catalogue.POLL_LATENCY).record(
            (self._context.monotonic() - ready_at) * 1000
        )
        if stream.ended_at is not None:
            seconds = stream.ended_at - stream.created_at
            count = polls_per_half_minute(stream.polls, seconds)
            metrics.distribution(catalogue.POLL_COUNT).record(count)
        log_event(figures.answered_record(stream, stream.log.next_index, self._context.monotonic()))
        return answer

    async def _wait(
        self, stream: ResponseStream, request: web.Request, from_index: int, patience: float
    ) -> float:
        """Wait until the poll may answer. Returns the earliest possible time of the answer."""
        monotonic = self._context.monotonic
        poll = PollPatience(from_index, monotonic(), patience)
        measures, user = self._context.measures, user_of(request)
        with measures.waiting_poll(), reading(stream, "poll", user) as reader:

            def hurry() -> None:
                poll.end_by(monotonic() + PROBE_SECONDS)
                reader.wake()

            when_half_closed(request, hurry)
            while True:
                next_index, is_closed = stream.log.next_index, stream.log.closed
                has_news = next_index > from_index
                if reader.left_behind:
                    return monotonic()  # the answer has what is here; the next poll finds the rest
                now = monotonic()
                due = poll.look(
                    now,
                    next_index=next_index,
                    has_news=has_news,
                    ended=is_closed,
                    first_delta_at=stream.first_delta_at,
                )
                if now >= due:
                    return poll.could_at(has_news=has_news, ended_at=stream.ended_at)
                reader.only_end = has_news  # further deltas change nothing
                await reader.wait(due - now)
                if not has_news:
                    poll.had_nothing_until(monotonic())


def _parse(body: bytes | bytearray) -> tuple[PostedMessage, WholeRequest | None]:
    """A parsed message, and the whole request in its payload, if any."""
    message = parse(POSTED_MESSAGE, body)
    return message, conversation_in(message.payload)


def _polled(stream: ResponseStream, point: ResumePoint) -> Polled:
    part = stream.log.read(point.next_index)
    return Polled(
        response_id=stream.response_id,
        message_id=stream.message_id,
        status=stream.state,
        part=replace(part, restarted=point.restarted) if point.restarted else part,
        epoch=stream.log.epoch_at(part.last_index),
        finish_reason=stream.finish_reason,
        usage=stream.usage.counted() if stream.usage else None,
        error=stream.error,
        degraded=stream.degraded,
        full_text=stream.log.text if stream.log.closed else None,
        place=stream.place,
        history_dropped=stream.history_dropped,
        history_dropped_by=stream.history_dropped_by,
    )
