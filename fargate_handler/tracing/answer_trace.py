"""The spans of an answer at the task that owns it."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, set_span_in_context

from evenflow.fargate_handler.tracing import names
from evenflow.fargate_handler.tracing.chosen_ids import answer_span_id, trace_id_of
from evenflow.fargate_handler.tracing.names import Attribute, SpanName
from evenflow.fargate_handler.tracing.spans import Spans, Value, context_of, link_to, traceparent_of
from evenflow.stream_core.base.trace_context import trace_id_in
from evenflow.stream_core.delivery.paced_cursor import Reader
from evenflow.stream_core.delivery.response_stream import ResponseStream


class AnswerTraces:
    """Follows answers as traces, those that are sampled.

    Args:
        source: the kind of the token source.
        model_name: the model that is asked where a message names none.
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
        asked: dict[str, Value] = {
            Attribute.OPERATION: names.CHAT,
            Attribute.PROVIDER: self._provider,
            Attribute.REQUEST_MODEL: model or self._model_name,
            Attribute.STREAM: True,
        }
        trace = AnswerTrace(spans, stream, answer, asked)
        trace.accepted(SpanName.TAKE_OVER if taken_over else SpanName.ACCEPT, since)
        return trace


class AnswerTrace:
    """Follows one response (`AnswerObserver`).

    Args:
        answer: the span of all of it.
        asked: the attributes of the model's span.
    """

    def __init__(
        self, spans: Spans, stream: ResponseStream, answer: Span, asked: dict[str, Value]
    ) -> None:
        self._spans = spans
        # None once it is over: the response would keep itself in memory, and its spans.
        self._stream: ResponseStream | None = stream
        self._answer = answer
        self._within = context_of(answer.get_span_context())
        self._asked = asked
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
        """The message is on record, or the response taken over."""
        self._queued_at = self._spans.monotonic()
        self._spans.add(name, self._within, since, self._queued_at)

    def started(self) -> None:
        """It has left the queue."""
        self._model_since = now = self._spans.monotonic()
        self._spans.add(SpanName.QUEUE, self._within, self._queued_at, now)
        name = f"{self._asked[Attribute.OPERATION]} {self._asked[Attribute.REQUEST_MODEL]}"
        self._model = self._spans.begin(name, self._within, now, self._asked, kind=SpanKind.CLIENT)

    def first_token(self) -> None:
        """The model has given its first token, behind what another task had."""
        self._first_token_at = self._spans.monotonic()

    def generated(self) -> None:
        """The response has ended here, and the model is closed."""
        stream, spans = self._stream, self._spans
        if stream is None:
            return
        now = spans.monotonic()
        error = str(stream.error["code"]) if stream.error is not None else None
        if self._model is None:
            spans.add(SpanName.QUEUE, self._within, self._queued_at, now)
        else:
            self._end_model(self._model, stream, now, error)
        over = stream.state.terminal
        self._answer.set_attribute(Attribute.STATE, stream.state if over else names.HANDED_OVER)
        spans.end(self._answer, now, error)
        self._stream = self._model = None
        self._asked = {}

    def attached(self, reader: Reader) -> None:
        """A reader has come."""
        self._readers[reader] = self._spans.monotonic()

    def detached(self, reader: Reader) -> None:
        """A reader has left."""
        since = self._readers.pop(reader)
        transport: dict[str, Value] = {Attribute.TRANSPORT: reader.transport}
        self._spans.add(SpanName.EMIT, self._within, since, self._spans.monotonic(), transport)

    def recorded(self, since: float) -> None:
        """Nothing more of it is written to the store."""
        self._spans.add(SpanName.STORE, self._within, since, self._spans.monotonic())

    def _end_model(
        self, model: Span, stream: ResponseStream, now: float, error: str | None
    ) -> None:
        within: Context = set_span_in_context(model, self._within)
        first = self._first_token_of(stream)
        self._spans.add(SpanName.PREFILL, within, self._model_since, first or now)
        if first is not None:
            self._spans.add(SpanName.DECODE, within, first, now)
            model.set_attribute(Attribute.FIRST_CHUNK, first - self._model_since)
        model.set_attributes(_told(stream))
        self._spans.end(model, now, error)

    def _first_token_of(self, stream: ResponseStream) -> float | None:
        if self._first_token_at is not None or not stream.tokens:
            return self._first_token_at
        return stream.first_delta_at


def _told(stream: ResponseStream) -> dict[str, Value]:
    """What the model's end says."""
    told: dict[str, Value] = {Attribute.ATTEMPTS: stream.attempt}
    if stream.finish_reason is not None:
        told[Attribute.FINISH_REASONS] = [stream.finish_reason]
    if (usage := stream.usage) is not None:
        counted = {
            Attribute.INPUT_TOKENS: usage.prompt_tokens,
            Attribute.OUTPUT_TOKENS: usage.completion_tokens,
            Attribute.CACHED_TOKENS: usage.cached_tokens,
            Attribute.REASONING_TOKENS: usage.reasoning_tokens,
        }
        told |= {name: count for name, count in counted.items() if count is not None}
    return told
