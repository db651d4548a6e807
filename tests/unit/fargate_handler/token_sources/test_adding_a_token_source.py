"""The smallest token source, the one of docs/adding-a-token-source.md, under an orchestrator."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.token_sources.port import ModelRequest
from evenflow.stream_core.base.errors import UpstreamRejected
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Task
from tests.unit.fargate_handler.token_sources.echo_source import EchoSource
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink
from tests.unit.settle import settle


def asked(text: str) -> ModelRequest:
    return ModelRequest("demo", (Turn("user", text),), 1)


async def test_what_it_says_is_the_answer() -> None:
    task = await Task.join(source=EchoSource())
    stream = (await task.send("m1", text="one two")).stream
    await settle()
    assert (stream.log.text, stream.state) == ("one two ", ResponseState.COMPLETED)
    await task.leave()


async def test_its_failure_is_the_answer_s() -> None:
    task = await Task.join(source=EchoSource())
    stream = (await task.send("m1", text=" ")).stream
    await settle()
    assert stream.state is ResponseState.ERROR
    assert stream.error is not None
    assert stream.error["code"] == "upstream_failed"
    await task.leave()


async def test_while_every_reader_pauses_it_waits() -> None:
    sink = RecordingSink()
    sink.paused = True
    saying = asyncio.create_task(EchoSource().generate(asked("one"), sink))
    await settle()
    assert sink.tokens == []
    sink.paused = False
    await saying
    assert sink.tokens == ["one "]


async def test_it_says_nothing_where_there_is_nothing_to_say() -> None:
    with pytest.raises(UpstreamRejected):
        await EchoSource().generate(asked(""), RecordingSink())
