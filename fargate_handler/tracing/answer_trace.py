"""The spans of an answer at the node that owns it."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, set_span_in_context

from evenflow.fargate_handler.tracing import names
from evenflow.fargate_handler.tracing.chosen_ids import answer_span_id, trace_id_of
from evenflow.fargate_handler.tracing.names import Attribute, SpanName
from evenflow.fargate_handler.tracing.spans import Spans, Value, context_of, link_to, traceparent_of
from evenflow.stream_core.base.trace_context import trace_id_in
from evenflow.stream_core.delivery.reader import Reader
from evenflow.stream_core.delivery.response_stream import ResponseStream


class AnswerTraces:
    """Follows answers as traces, those that are sampled.

    Args:
        source: the kind of the token source.
        model_name: the model of messages that name none.
    """

    def __init__(self, spans: Spans, source: str, model_name: str) -> None:
        self._spans = spans
        self._provider = names.PROVIDERS[source]
        self._model_name = model_name

    def begin(
        self,
        stream: ResponseStream,
        traceparent: str,
        model: str,
        since: float,
        *,
        taken_over: bool,
    ) -> AnswerTrace | None:
        """Follow a response from now on. None if it isn't sampled.

        Args:
            traceparent: the client's span, as it is on record with the message. Empty: none.
            model: the model's name at its server. Empty: the usual one.
            since: when the message came, or its take-over began, in seconds on the monotonic clock.
        """
        spans, channel, response_id = self._spans, stream.channel, stream.response_id
        trace_id = trace_id_of(response_id)
        if traceparent:
            trace_id = int(trace_id_in(traceparent), 16)
        if not spans.are_sampled(traceparent, trace_id):
            return None
        earlier = answer_span_id(response_id, stream.epoch - 1)
        links = [link_to(trace_id, earlier)] if stream.epoch > 1 else []
        answer = spans.begin_with_ids(
            SpanName.ANSWER,
            traceparent,
            since,
            {
                Attribute.RESPONSE_ID: response_id,
                Attribute.TENANT: channel.tenant,
                Attribute.AGENT: channel.agent,
                Attribute.EPOCH: stream.epoch,
            },
            ids=(trace_id, answer_span_id(response_id, stream.epoch)),
            links=links,
        )
        model_attributes: dict[str, Value] = {
            Attribute.OPERATION: names.CHAT,
            Attribute.PROVIDER: self._provider,
            Attribute.REQUEST_MODEL: model or self._model_name,
            Attribute.STREAM: True,
        }
        trace = AnswerTrace(spans, stream, answer, model_attributes)
        trace.accepted(SpanName.TAKE_OVER if taken_over else SpanName.ACCEPT, since)
        return trace


class AnswerTrace:
    """Follows one response (`AnswerObserver`).

    Args:
        answer: the span of all of it.
        model_attributes: the attributes of the model's span.
    """

    def __init__(
        self, spans: Spans, stream: ResponseStream, answer: Span, model_attributes: dict[str, Value]
    ) -> None:
        self._spans = spans
        # None once it is over: the response would keep itself in memory, and its spans.
        self._stream: ResponseStream | None = stream
        self._answer = answer
        self._context = context_of(answer.get_span_context())
        self._model_attributes = model_attributes
        self._queued_at = 0.0
        self._model: Span | None = None
        self._model_since = 0.0
        self._first_token_at: float | None = None
        self._readers: dict[Reader, float] = {}

    @property
    def traceparent(self) -> str:
        """The model's span."""
        return traceparent_of(self._model or self._answer)

    def accepted(self, name: SpanName, since: float) -> None:
        """Record that the message was stored, or the response taken over."""
        self._queued_at = self._spans.monotonic()
        self._spans.add(name, self._context, since, self._queued_at)

    def started(self) -> None:
        """Record that the response has left the queue."""
        self._model_since = now = self._spans.monotonic()
        self._spans.add(SpanName.QUEUE, self._context, self._queued_at, now)
        attributes = self._model_attributes
        name = f"{attributes[Attribute.OPERATION]} {attributes[Attribute.REQUEST_MODEL]}"
        self._model = self._spans.begin(name, self._context, now, attributes, kind=SpanKind.CLIENT)

    def first_token(self) -> None:
        """Record the model's first token, after the tokens of an earlier node."""
        self._first_token_at = self._spans.monotonic()

    def generated(self) -> None:
        """Record that the response has ended here, and the model is closed."""
        stream, spans = self._stream, self._spans
        if stream is None:
            return
        now = spans.monotonic()
        error = str(stream.error["code"]) if stream.error is not None else None
        if self._model is None:
            spans.add(SpanName.QUEUE, self._context, self._queued_at, now)
        else:
            self._end_model(self._model, stream, now, error)
        over = stream.state.terminal
        self._answer.set_attribute(Attribute.STATE, stream.state if over else names.HANDED_OVER)
        spans.end(self._answer, now, error)
        self._stream = self._model = None
        self._model_attributes = {}

    def attached(self, reader: Reader) -> None:
        """Record that a reader has attached."""
        self._readers[reader] = self._spans.monotonic()

    def detached(self, reader: Reader) -> None:
        """Record that a reader has detached."""
        since = self._readers.pop(reader)
        transport: dict[str, Value] = {Attribute.TRANSPORT: reader.transport}
        self._spans.add(SpanName.EMIT, self._context, since, self._spans.monotonic(), transport)

    def recorded(self, since: float) -> None:
        """Record that the response is stored completely."""
        self._spans.add(SpanName.STORE, self._context, since, self._spans.monotonic())

    def _end_model(
        self, model: Span, stream: ResponseStream, now: float, error: str | None
    ) -> None:
        model_context: Context = set_span_in_context(model, self._context)
        first = self._first_token_of(stream)
        self._spans.add(SpanName.PREFILL, model_context, self._model_since, first or now)
        if first is not None:
            self._spans.add(SpanName.DECODE, model_context, first, now)
            model.set_attribute(Attribute.FIRST_CHUNK, first - self._model_since)
        model.set_attributes(_end_attributes(stream))
        self._spans.end(model, now, error)

    def _first_token_of(self, stream: ResponseStream) -> float | None:
        if self._first_token_at is not None or not stream.tokens:
            return self._first_token_at
        return stream.first_delta_at


def _end_attributes(stream: ResponseStream) -> dict[str, Value]:
    """The attributes of the model's end."""
    attributes: dict[str, Value] = {Attribute.ATTEMPTS: stream.attempt}
    if stream.finish_reason is not None:
        attributes[Attribute.FINISH_REASONS] = [stream.finish_reason]
    if (usage := stream.usage) is not None:
        counts = {
            Attribute.INPUT_TOKENS: usage.prompt_tokens,
            Attribute.OUTPUT_TOKENS: usage.completion_tokens,
            Attribute.CACHED_TOKENS: usage.cached_tokens,
            Attribute.REASONING_TOKENS: usage.reasoning_tokens,
        }
        attributes |= {name: count for name, count in counts.items() if count is not None}
    return attributes
