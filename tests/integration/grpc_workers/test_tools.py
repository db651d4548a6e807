"""Tools across the wire to a worker, and to one that is older than they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import grpc
import pytest

from evenflow.fargate_handler.inference.llm_v1 import inference_pb2 as wire
from evenflow.fargate_handler.inference.llm_v1.inference_pb2_grpc import (
    InferenceServicer,
    InferenceStub,
    add_InferenceServicer_to_server,
)
from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelOptions, ModelRequest
from evenflow.stream_core.base.errors import ModelRefused, UpstreamFailed
from evenflow.stream_core.log.entries import Content, Part, PartKind
from evenflow.stream_core.session.conversation import ToolCall, Turn
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
    "demo", _TURNS, 1, options=ModelOptions(tools=tuple(TOOLS), tool_choice="auto")
)


_CALL: tuple[Content, ...] = (
    Part(PartKind.CALL, id="c", name="f"),
    Part(PartKind.ARGUMENTS, "{}"),
    Part(PartKind.CALL_END),
)


class OldWorker(InferenceServicer):
    """One that is older than tools, or marks calls in the text.

    Args:
        tools: whether it says that it knows tools.
    """

    def __init__(self, *, tools: bool) -> None:
        self._tools = tools

    async def Describe(  # noqa: N802
        self, request: wire.DescribeRequest, context: object
    ) -> wire.DescribeResponse:
        return wire.DescribeResponse(continues=True, tools=self._tools)

    async def Stream(self, request: wire.StreamRequest, context: object) -> None:  # noqa: N802
        raise AssertionError("it isn't asked")


@pytest.fixture(params=[False, True])
async def old_worker(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    server = grpc.aio.server()
    add_InferenceServicer_to_server(OldWorker(tools=request.param), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


async def test_a_worker_s_model_is_given_the_tools(serving: Serving, opened: Opened) -> None:
    finish = ModelFinish("tool_calls", FINISH.usage)
    model, sink = ScriptedSource(says("So: ", *_CALL, "Then", finish=finish)), RecordingSink()
    assert await opened([(await serving(model)).address]).generate(_ASKED, sink) == finish
    assert model.requests == [_ASKED]
    assert sink.contents == ["So: ", *_CALL, "Then"]


async def test_calls_of_a_worker_with_one_id_have_two(serving: Serving, opened: Opened) -> None:
    again = [replace(part, call=1) for part in _CALL if isinstance(part, Part)]
    results = [Part(PartKind.RESULT, text, id="c", name="f") for text in ("1", "2")]
    model, sink = ScriptedSource(says(*_CALL, *again, *results)), RecordingSink()
    await opened([(await serving(model)).address]).generate(_ASKED, sink)
    ids = [part.id for part in sink.contents if isinstance(part, Part) and part.id]
    assert ids == ["c", "c_2", "c", "c_2"]


async def test_a_handler_that_cannot_read_calls_is_given_none(serving: Serving) -> None:
    model = ScriptedSource(says(*_CALL))
    async with grpc.aio.insecure_channel((await serving(model)).address) as channel:
        asked = wire.StreamRequest(options=wire.Options(tools=["{}"]))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await InferenceStub(channel).Stream(asked).read()
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert not model.requests


async def test_what_is_no_part_of_an_answer_is_told(opened: Opened) -> None:
    class Worker(InferenceServicer):
        async def Stream(  # noqa: N802
            self, request: wire.StreamRequest, context: object
        ) -> AsyncIterator[wire.StreamEvent]:
            result = wire.Part(kind=wire.Part.KIND_RESULT, text="of no call")
            yield wire.StreamEvent(tokens=wire.Tokens(text=["So"]))
            yield wire.StreamEvent(parts=wire.Parts(part=[result]))

    sink, server = RecordingSink(), grpc.aio.server()
    add_InferenceServicer_to_server(Worker(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    with pytest.raises(UpstreamFailed, match="cannot be read"):
        await opened([f"127.0.0.1:{port}"]).generate(replace(_ASKED, options=ModelOptions()), sink)
    assert sink.contents == ["So"]
    await server.stop(0)


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
