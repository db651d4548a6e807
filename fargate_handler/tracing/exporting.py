"""Exports spans over OTLP (http/protobuf), as the variables `OTEL_…` say. It needs the SDK."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import Tracer

from evenflow.fargate_handler.tracing.chosen_ids import ChosenIds

_logger = logging.getLogger(__name__)

USUAL_SHARE = 0.05
"""A trace costs a fifth of what its answer does otherwise. Of one in twenty that is 1 %."""

_FLUSH_SECONDS = 5.0
_SERVICE_NAME = "service.name"


class Tracing(NamedTuple):
    """Makes spans, which are exported. `ids` chooses the ids of the next one, `sampler` says of
    which traces there are any.
    """

    tracer: Tracer
    ids: ChosenIds
    sampler: Sampler


@asynccontextmanager
async def exported_traces(service: str) -> AsyncIterator[Tracing]:
    """Export spans in a thread. At the end what is left is sent, for 5 s at the most.

    Args:
        service: the name of the service, if the environment has none.
    """
    ids = ChosenIds()
    provider = TracerProvider(
        sampler=sampler(os.environ),
        resource=_resource(service),
        id_generator=ids,
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield Tracing(provider.get_tracer("evenflow"), ids, provider.sampler)
    finally:
        # A collector that doesn't answer must not keep the process: the thread ends with it.
        flush = threading.Thread(target=provider.shutdown, daemon=True)
        flush.start()
        await asyncio.to_thread(flush.join, _FLUSH_SECONDS)
        if flush.is_alive():
            _logger.warning(
                "the collector of traces took nothing for %g s; the last spans are lost",
                _FLUSH_SECONDS,
            )


def sampler(environment: Mapping[str, str]) -> Sampler | None:
    """Which traces are exported. None: the SDK reads that in the environment.

    By default: those that their clients sample, and a share of the others.
    """
    if environment.get("OTEL_TRACES_SAMPLER"):
        return None
    return ParentBased(TraceIdRatioBased(USUAL_SHARE))


def _resource(service: str) -> Resource:
    attributes = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    has_service_name = "OTEL_SERVICE_NAME" in os.environ or f"{_SERVICE_NAME}=" in attributes
    return Resource.create({} if has_service_name else {_SERVICE_NAME: service})
