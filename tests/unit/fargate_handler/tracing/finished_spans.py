"""Spans in the test's memory, made as the handler makes them."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from evenflow.fargate_handler.tracing.chosen_ids import ChosenIds
from evenflow.fargate_handler.tracing.exporting import Tracing
from evenflow.fargate_handler.tracing.spans import Spans
from tests.unit.hand_turned_clock import HandTurnedClock


class FinishedSpans:
    """Keeps what has ended. `ratio` is the share of traces without a parent that are sampled."""

    def __init__(self, clock: HandTurnedClock, ratio: float = 1.0) -> None:
        ids = ChosenIds()
        self._kept = InMemorySpanExporter()
        provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(ratio)),
            id_generator=ids,
            shutdown_on_exit=False,
        )
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        tracing = Tracing(provider.get_tracer("test"), ids, provider.sampler)
        self.spans = Spans(tracing, clock.monotonic, clock.monotonic)

    @property
    def all(self) -> dict[str, ReadableSpan]:
        """By name; of several the last one."""
        return {span.name: span for span in self._kept.get_finished_spans()}

    def seconds(self, name: str) -> tuple[float, float]:
        """When it began and ended, to the millisecond."""
        span = self.all[name]
        assert span.start_time is not None
        assert span.end_time is not None
        return round(span.start_time / 1e9, 3), round(span.end_time / 1e9, 3)
