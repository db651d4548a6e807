"""`/chat/message`: send, long-poll, cancel."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.http_answers import authenticated, json_answer, requested_stream, whole_number
from fargate_handler.gateway.waking_reader import reading
from fargate_handler.orchestrator.ingest_event import IngestEvent
from stream_core import metric_catalogue as catalogue
from stream_core.errors import InvalidRequest
from stream_core.long_poll import answer_at, linger_seconds
from stream_core.messages import CHAT_MESSAGE, parse
from stream_core.response_stream import ResponseStream

_DEFAULT_TIMEOUT_MS = 10_000


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
        stream, _ = context.orchestrator.submit(event)
        return json_answer(
            {"response_id": stream.response_id, "message_id": stream.message_id, "status": stream.state}, status=202
        )

    async def delete(self, request: web.Request) -> web.Response:
        """Cancel: the model stops at once."""
        stream = requested_stream(request, self._context)
        self._context.orchestrator.cancel(stream)
        return json_answer({"response_id": stream.response_id, "status": stream.state})

    async def poll(self, request: web.Request) -> web.Response:
        """The text from `from_index` on, when the rules of `stream_core.long_poll` say so."""
        stream = requested_stream(request, self._context)
        from_index = whole_number(request, "from_index", 0)
        if from_index > stream.log.next_index:
            raise InvalidRequest(
                f"from_index is {from_index}, but the response's next index is {stream.log.next_index}",
                code="invalid_field",
                param="from_index",
            )
        limits, metrics = self._context.limits, self._context.metrics
        timeout_ms = min(whole_number(request, "timeout_ms", _DEFAULT_TIMEOUT_MS), limits.poll_timeout_max_ms)
        stream.polls += 1
        ready_at = await self._wait(stream, from_index, timeout_ms / 1000)
        answer = _answer(stream, from_index)
        self._context.measures.delivered.value += stream.log.next_index - from_index
        metrics.distribution(catalogue.POLL_LATENCY).record((self._context.monotonic() - ready_at) * 1000)
        if stream.log.closed:
            metrics.distribution(catalogue.POLL_COUNT).record(stream.polls)
        return answer

    async def _wait(self, stream: ResponseStream, from_index: int, patience: float) -> float:
        """Wait until the poll may answer; returns the moment from which on it could."""
        monotonic = self._context.monotonic
        started = monotonic()
        first = stream.first_delta_at
        linger_until = started + linger_seconds(from_index, started - first if first is not None else 0.0)
        with reading(stream, self._context.limits) as reader:
            while True:
                has_news, ended = stream.log.next_index > from_index, stream.log.closed
                due = answer_at(
                    linger_until=linger_until, timeout_at=started + patience, has_news=has_news, ended=ended
                )
                now = monotonic()
                if now >= due:
                    break
                await reader.wait(due - now)
        if ended:
            return max(started, stream.ended_at or 0.0)
        return max(due, stream.first_delta_at or 0.0) if has_news else due


def _answer(stream: ResponseStream, from_index: int) -> web.Response:
    part = stream.log.read(from_index)
    restarted = part.restarted
    metadata: dict[str, Any] = {
        "message_id": stream.message_id,
        "next_index": part.last_index + 1,
        "finish_reason": stream.finish_reason,
        "degraded": stream.degraded,
        "usage": stream.usage.model_dump() if stream.usage else None,
        "restarted": {"from_index": restarted.from_index, "attempt": restarted.attempt} if restarted else None,
    }
    if stream.error is not None:
        metadata["error"] = stream.error
    body: dict[str, Any] = {
        "response_id": stream.response_id,
        "new_text": part.text,
        "chunk_index": part.last_index,
        "status": stream.state,
        "metadata": metadata,
    }
    if stream.log.closed:
        body["full_text"] = stream.log.text
    return json_answer(body)
