"""Tools across the wire to a worker, and to one that is older than they are."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import grpc
import pytest

from fargate_handler.inference.llm_v1 import inference_pb2 as wire
from fargate_handler.inference.llm_v1.inference_pb2_grpc import (
    InferenceServicer,
    add_InferenceServicer_to_server,
)
from fargate_handler.token_sources.demo.script import demo_tokens
from fargate_handler.token_sources.port import ModelFinish, ModelOptions, ModelRequest
from stream_core.log.conversation import ToolCall, Turn
from stream_core.protocol.errors import ModelRefused
from tests.integration.chat_client import demo
from tests.integration.conftest import Serve
from tests.integration.grpc_workers.conftest import Opened, Serving, Workers
from tests.integration.grpc_workers.scripted_source import FINISH, ScriptedSource, says
from tests.integration.openai.completions import Completions
from tests.integration.openai.tools import TOOLS, demo_call
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_TURNS = (
    Turn("user", "x"),
    Turn("assistant", "", (ToolCall("c1", "look_up", "{"), ToolCall("c2", "note", ""))),
    Turn("tool", "流", tool_call_id="c1"),
    Turn("tool", "", tool_call_id="c2"),
)
_ASKED = ModelRequest(
    "demo", _TURNS, 1, options=ModelOptions(tools=tuple(TOOLS), tool_choice="auto"), marked=True
)


class OldWorker(InferenceServicer):
    """One that has never heard of tools: it would answer as if there were none."""

    async def Describe(  # noqa: N802
        self, request: wire.DescribeRequest, context: object
    ) -> wire.DescribeResponse:
        return wire.DescribeResponse(continues=True)

    async def Stream(self, request: wire.StreamRequest, context: object) -> None:  # noqa: N802
        raise AssertionError("it isn't asked")


@pytest.fixture
async def old_worker() -> AsyncIterator[str]:
    server = grpc.aio.server()
    add_InferenceServicer_to_server(OldWorker(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


async def test_a_worker_s_model_is_given_the_tools(serving: Serving, opened: Opened) -> None:
    finish = ModelFinish("tool_calls", FINISH.usage)
    model, sink = (
        ScriptedSource(says('\x1e{"call":0,', '"id":"c","name":"f"}\n', "{}", finish=finish)),
        RecordingSink(),
    )
    assert await opened([(await serving(model)).address]).generate(_ASKED, sink) == finish
    assert model.requests == [_ASKED]
    assert sink.text == '\x1e{"call":0,"id":"c","name":"f"}\n{}'


async def test_a_worker_that_knows_no_tools_is_not_asked(
    serving: Serving, opened: Opened, old_worker: str
) -> None:
    with pytest.raises(ModelRefused, match="tools"):
        await opened([old_worker]).generate(_ASKED, RecordingSink())
    model = ScriptedSource(says("x"))
    both = opened([old_worker, (await serving(model)).address])
    for _ in range(10):
        assert await both.generate(_ASKED, RecordingSink()) == FINISH
    assert len(model.requests) == 10


async def test_a_client_calls_tools_through_a_worker(
    workers: Workers, serve: Serve, http: aiohttp.ClientSession
) -> None:
    completions = Completions(http, await serve(model="grpc", workers=(await workers()).address))
    text = demo(tokens=5, gap_ms=2, seed=5, calls=2)
    streamed = await completions.stream(text, model="grpc", tools=TOOLS)
    assert (streamed.text, streamed.finish_reason) == ("".join(demo_tokens(5, 5)), "tool_calls")
    assert streamed.calls == {index: demo_call(index) for index in range(2)}
    (choice,) = (await completions.ask(text, model="grpc", tools=TOOLS)).json["choices"]
    assert choice["message"]["tool_calls"] == [demo_call(0), demo_call(1)]
