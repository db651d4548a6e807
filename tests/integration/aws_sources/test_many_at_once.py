"""More streams at once than pools of connections have by default."""

from __future__ import annotations

import asyncio

import psutil

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.answer import Usage
from tests.integration.aws_models.model_server import ModelServer
from tests.integration.aws_models.services import Service
from tests.integration.aws_sources.conftest import (
    STREAMS,
    Opened,
    asks,
    nobody_is_connected,
    nothing_is_left,
)
from tests.integration.chat_client import demo
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink


async def _open_files(model: ModelServer) -> int:
    """How many files this process has open. uvloop keeps one from a loop's first connection on."""
    host, _, port = model.url.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.close()
    await writer.wait_closed()
    await nobody_is_connected(model)
    return psutil.Process().num_fds()


async def test_streams_at_once(either: Service, model: ModelServer, opened: Opened) -> None:
    model.together = STREAMS
    source = opened(either)
    files_before = await _open_files(model)
    sinks = [RecordingSink() for _ in range(STREAMS)]
    calls = [
        asyncio.ensure_future(source.generate(asks(demo(tokens=10, gap_ms=20, seed=seed)), sink))
        for seed, sink in enumerate(sinks)
    ]
    async with asyncio.timeout(30):
        finishes = await asyncio.gather(*calls)
    assert [sink.text for sink in sinks] == [
        "".join(demo_tokens(seed, 10)) for seed in range(STREAMS)
    ]
    assert finishes == [ModelFinish("stop", Usage(prompt_tokens=4, completion_tokens=10))] * STREAMS
    await nothing_is_left(source, model)
    assert psutil.Process().num_fds() <= files_before


async def test_cancellations_at_once(either: Service, model: ModelServer, opened: Opened) -> None:
    model.together = STREAMS
    source = opened(either)
    files_before = await _open_files(model)
    question = asks(demo(tokens=1000, gap_ms=50))
    sinks = [RecordingSink() for _ in range(STREAMS)]
    calls = [asyncio.ensure_future(source.generate(question, sink)) for sink in sinks]
    await model.until_open(STREAMS)
    # What fills them is what is tested.
    while not all(sink.tokens for sink in sinks):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await model.until_open(0)
    await nobody_is_connected(model)
    # Their places in the pool are free again.
    sinks = [RecordingSink() for _ in range(STREAMS)]
    await asyncio.gather(
        *(source.generate(asks(demo(tokens=2, gap_ms=0, seed=9)), sink) for sink in sinks)
    )
    assert {sink.text for sink in sinks} == {"".join(demo_tokens(9, 2))}
    await nothing_is_left(source, model)
    assert psutil.Process().num_fds() <= files_before
