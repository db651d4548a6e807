"""Makes spans of the program's own times, and reads and writes `traceparent`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from evenflow.fargate_handler.tracing.exporting import Tracing
from evenflow.fargate_handler.tracing.names import Attribute, SpanName

Value = str | bool | int | float | Sequence[str]

_NOWHERE = Context()


class Spans:
    """Makes spans from times on the monotonic clock.

    Args:
        monotonic: seconds.
        wall_time: seconds since the epoch.
    """

    def __init__(
        self, tracing: Tracing, monotonic: Callable[[], float], wall_time: Callable[[], float]
    ) -> None:
        self._tracing = tracing
        self.monotonic = monotonic
        self._wall_time = wall_time

    def are_sampled(self, traceparent: str, trace_id: int) -> bool:
        """Whether spans of this trace are exported. Quicker than to make one that isn't."""
        parent = remote_parent(traceparent)
        sampled = self._tracing.sampler.should_sample(parent, trace_id, SpanName.ANSWER)
        return sampled.decision is Decision.RECORD_AND_SAMPLE

    def begin(
        self,
        name: str,
        parent: Context,
        since: float,
        attributes: Mapping[str, Value] | None = None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
    ) -> Span:
        """Begin a span at a time that has passed."""
        return self._tracing.tracer.start_span(
            name, parent, kind, attributes, links, self._nanoseconds(since)
        )

    def begin_with_ids(
        self,
        name: str,
        traceparent: str,
        since: float,
        attributes: Mapping[str, Value],
        *,
        ids: tuple[int, int],
        links: Sequence[Link],
    ) -> Span:
        """Begin a server's span with these ids: of the trace, where no `traceparent` says it, and
        its own.
        """
        self._tracing.ids.choose(*ids)
        parent = remote_parent(traceparent)
        return self.begin(name, parent, since, attributes, kind=SpanKind.SERVER, links=links)

    def end(self, span: Span, at: float, error: str | None = None) -> None:
        """End a span. `error`: the code of the error that it ended with."""
        if error is not None:
            span.set_attribute(Attribute.ERROR, error)
            # Without the message, which may repeat a text of the model's server.
            span.set_status(Status(StatusCode.ERROR))
        span.end(self._nanoseconds(at))

    def add(
        self,
        name: SpanName,
        parent: Context,
        since: float,
        until: float,
        attributes: Mapping[str, Value] | None = None,
    ) -> None:
        """Add a span that is over."""
        self.end(self.begin(name, parent, since, attributes), until)

    def _nanoseconds(self, moment: float) -> int:
        return int((self._wall_time() - self.monotonic() + moment) * 1e9)


def remote_parent(traceparent: str) -> Context:
    """The context of a remote span, by a valid or empty `traceparent`."""
    if not traceparent:
        return _NOWHERE
    _, trace_id, span_id, flags = traceparent.split("-")
    return context_of(_remote(int(trace_id, 16), int(span_id, 16), int(flags, 16)))


def link_to(trace_id: int, span_id: int) -> Link:
    """A link to a remote span."""
    return Link(_remote(trace_id, span_id, TraceFlags.SAMPLED))


def context_of(span: SpanContext) -> Context:
    """The context for spans within this one, which may be over."""
    return set_span_in_context(NonRecordingSpan(span), _NOWHERE)


def traceparent_of(span: Span) -> str:
    """The `traceparent` to pass to a callee."""
    context = span.get_span_context()
    sampled = context.trace_flags.sampled
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{sampled:02x}"


def _remote(trace_id: int, span_id: int, flags: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
