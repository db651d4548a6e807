"""A worker's part of a trace: within the handler's, and told on to its model."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.token_sources.port import ModelRequest
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.session.conversation import Turn
from tests.integration.grpc_workers.conftest import Opened, WorkerProcesses
from tests.integration.scripted_model import END, Reply, chunk, scripted_model
from tests.integration.trace_collector import trace_collector
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_TRACE, _HANDLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_QUESTION = ModelRequest(
    "demo", (Turn("user", "a question"),), 1, traceparent=f"00-{_TRACE}-{_HANDLER}-01"
)


async def test_a_worker_is_a_part_of_the_trace_and_so_is_its_model(
    worker_processes: WorkerProcesses, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with trace_collector() as collector, scripted_model() as model:
        for name, value in collector.environment.items():
            monkeypatch.setenv(name, value)
        model.will(Reply([chunk("hi"), END]), Reply([], status=500))
        worker = worker_processes(model="openai", model_url=model.url)
        source = opened([worker.address])
        await source.generate(_QUESTION, RecordingSink())
        spans = await collector.until("llm.v1.Inference/Stream", "prefill", "decode")
        call, prefill, decode = (
            next(span for span in spans if span.name == name)
            for name in ("llm.v1.Inference/Stream", "prefill", "decode")
        )
        assert (call.service, call.kind) == ("evenflow-worker", "SPAN_KIND_SERVER")
        assert (call.trace_id, call.parent_id, call.failed) == (_TRACE, _HANDLER, False)
        assert prefill.parent_id == decode.parent_id == call.span_id
        assert abs(prefill.ended - decode.began) < 1_000_000
        assert model.headers[0]["traceparent"] == f"00-{_TRACE}-{call.span_id}-01"
        with pytest.raises(EvenflowError) as failed:
            await source.generate(_QUESTION, RecordingSink())
        spans = await collector.until(*["llm.v1.Inference/Stream"] * 2)
        ended = next(span for span in spans if span.failed)
        assert ended.attributes["error.type"] == failed.value.code
