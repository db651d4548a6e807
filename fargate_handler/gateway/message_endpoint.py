"""`/chat/message`: send, long-poll, cancel."""

from __future__ import annotations

import asyncio

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.http_answers import authenticated, json_answer, number_of_query, requested_stream
from fargate_handler.gateway.waking_reader import reading
from fargate_handler.orchestrator.ingest_event import IngestEvent
from stream_core import metric_catalogue as catalogue
from stream_core.long_poll import DEFAULT_TIMEOUT_MS, Polled, PollPatience, check_from_index
from stream_core.messages import CHAT_MESSAGE, parse
from stream_core.response_stream import ResponseStream


class MessageEndpoint:
    """The HTTPS fallback."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def post(self, request: web.Request) -> web.Response:
        """202 as soon as the message is accepted."""
        context = self._context
        channel = authenticated(request, context)
        message = parse(CHAT_MESSAGE, await request.read())
        event = IngestEvent(
            channel, message.message_id, message.previous_message_id, message.payload.text, context.limits.grace_seconds
        )
        # A client that hangs up now has sent its message all the same.
        stream, _ = await asyncio.shield(context.background.run(context.orchestrator.submit(event)))
        return json_answer(
            {"response_id": stream.response_id, "message_id": stream.message_id, "status": stream.state}, status=202
        )

    async def cancel(self, request: web.Request) -> web.Response:
        """Stop the model at once."""
        stream = requested_stream(request, self._context)
        self._context.orchestrator.cancel(stream)
        return json_answer({"response_id": stream.response_id, "status": stream.state})

    async def poll(self, request: web.Request) -> web.Response:
        """The text from `from_index` on, when the rules of `stream_core.long_poll` say so."""
        stream = requested_stream(request, self._context)
        from_index = number_of_query(request, "from_index", 0)
        check_from_index(from_index, stream.log.next_index)
        limits, metrics = self._context.limits, self._context.metrics
        timeout_ms = min(number_of_query(request, "timeout_ms", DEFAULT_TIMEOUT_MS), limits.poll_timeout_max_ms)
        stream.polls += 1
        ready_at = await self._wait(stream, from_index, timeout_ms / 1000)
        answer = json_answer(_polled(stream, from_index).to_body())
        self._context.measures.delivered.value += stream.log.next_index - from_index
        metrics.distribution(catalogue.POLL_LATENCY).record((self._context.monotonic() - ready_at) * 1000)
        if stream.log.closed:
            metrics.distribution(catalogue.POLL_COUNT).record(stream.polls)
        return answer

    async def _wait(self, stream: ResponseStream, from_index: int, patience: float) -> float:
        """Wait until the poll may answer; returns the moment from which on it could."""
        monotonic = self._context.monotonic
        poll = PollPatience(from_index, monotonic(), patience)
        with reading(stream, self._context.limits) as reader:
            while True:
                has_news, ended = stream.log.next_index > from_index, stream.log.closed
                now = monotonic()
                due = poll.look(now, has_news=has_news, ended=ended, first_delta_at=stream.first_delta_at)
                if now >= due:
                    return poll.could_at(has_news=has_news, ended_at=stream.ended_at)
                await reader.wait(due - now)


def _polled(stream: ResponseStream, from_index: int) -> Polled:
    return Polled(
        response_id=stream.response_id,
        message_id=stream.message_id,
        status=stream.state,
        part=stream.log.read(from_index),
        finish_reason=stream.finish_reason,
        usage=stream.usage.model_dump() if stream.usage else None,
        error=stream.error,
        degraded=stream.degraded,
        full_text=stream.log.text if stream.log.closed else None,
    )
