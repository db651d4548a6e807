"""A collector of traces: takes what handlers export over OTLP, and tells the spans."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

_SECONDS = 20.0


@dataclass(frozen=True)
class CollectedSpan:
    """A span as it came. Ids are hexadecimal, times in nanoseconds since the epoch."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[tuple[str, str], ...]
    attributes: dict[str, Any]
    failed: bool
    began: int
    ended: int


@dataclass
class TraceCollector:
    """Serves `POST /v1/traces`. `bodies` are the requests as they came."""

    url: str = ""
    spans: list[CollectedSpan] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a handler that exports every trace here, soon after a span has ended."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_TRACES_SAMPLER": "parentbased_always_on",
            "OTEL_BSP_SCHEDULE_DELAY": "20",
        }

    async def until(self, *names: str) -> list[CollectedSpan]:
        """Wait for spans of these names, as many of each; returns all that came, by their begin."""
        wanted = Counter(names)
        async with asyncio.timeout(_SECONDS):
            while wanted - Counter(span.name for span in self.spans):
                self._came.clear()
                await self._came.wait()
        return sorted(self.spans, key=lambda span: span.began)

    async def take(self, request: web.Request) -> web.Response:
        """`POST /v1/traces`, as protobuf."""
        assert request.content_type == "application/x-protobuf"
        body = await request.read()
        self.bodies.append(body)
        exported = ExportTraceServiceRequest.FromString(body)
        for of_resource in exported.resource_spans:
            service = _values(of_resource.resource.attributes)["service.name"]
            for of_scope in of_resource.scope_spans:
                self.spans += [_collected(service, span) for span in of_scope.spans]
        self._came.set()
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(),
            content_type="application/x-protobuf",
        )


def _collected(service: str, span: WireSpan) -> CollectedSpan:
    return CollectedSpan(
        service,
        span.name,
        WireSpan.SpanKind.Name(span.kind),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        _values(span.attributes),
        span.status.code == Status.STATUS_CODE_ERROR,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


def _values(attributes: Iterable[Any]) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, str(kind))


@asynccontextmanager
async def trace_collector() -> AsyncIterator[TraceCollector]:
    """Serve one on a free port."""
    collector = TraceCollector()
    app = web.Application(client_max_size=2**26)
    app.add_routes([web.post("/v1/traces", collector.take)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()
