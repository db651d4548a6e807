"""The spans of a handler's call at a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span, SpanKind, set_span_in_context

from evenflow.fargate_handler.tracing import names
from evenflow.fargate_handler.tracing.names import Attribute, SpanName
from evenflow.fargate_handler.tracing.spans import Spans, Value, remote_parent, traceparent_of

_ATTRIBUTES: dict[str, Value] = {
    Attribute.RPC_SYSTEM: names.GRPC,
    Attribute.RPC_METHOD: SpanName.WORKER,
}


class CallTrace:
    """Follows one call."""

    def __init__(self, spans: Spans, call: Span, since: float) -> None:
        self._spans = spans
        self._call = call
        self._since = since
        self._first_token_at: float | None = None
        self.error: str | None = None
        """The code of the error with which the call ends."""

    @property
    def traceparent(self) -> str:
        """The trace that is passed to the model."""
        return traceparent_of(self._call)

    def first_token(self) -> None:
        """Record the model's first tokens."""
        self._first_token_at = self._spans.monotonic()

    def end(self) -> None:
        """Record that the call is over, and the model is closed."""
        now, first = self._spans.monotonic(), self._first_token_at
        call_context = set_span_in_context(self._call)
        self._spans.add(SpanName.PREFILL, call_context, self._since, first or now)
        if first is not None:
            self._spans.add(SpanName.DECODE, call_context, first, now)
        self._spans.end(self._call, now, self.error)


class CallTraces:
    """Follows calls as traces, those that are sampled."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    @contextmanager
    def call(self, traceparent: str) -> Iterator[CallTrace]:
        """Follow a call from now to the end of the block. `traceparent` is the handler's span."""
        since = self._spans.monotonic()
        span = self._spans.begin(
            SpanName.WORKER, remote_parent(traceparent), since, _ATTRIBUTES, kind=SpanKind.SERVER
        )
        trace = CallTrace(self._spans, span, since)
        try:
            yield trace
        finally:
            trace.end()
