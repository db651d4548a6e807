"""Three hundred streams at once, with the server on another core."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fargate_handler.token_sources.demo.script import demo_tokens
from fargate_handler.token_sources.port import ModelFinish
from stream_core.protocol.messages import Usage
from tests.integration.aws_models.model_process import ModelProcess, model_process
from tests.integration.aws_models.services import Service
from tests.integration.aws_sources.conftest import (
    STREAMS,
    Opened,
    asks,
    point_at,
)
from tests.integration.chat_client import demo
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ModelProcess]:
    """The model server, on another core: nobody gets a token before everybody has asked."""
    with model_process(tmp_path / "models.log", STREAMS) as running:
        yield running


async def _open_files(process: ModelProcess) -> int:
    """How many files this process has open. uvloop keeps one from a loop's first connection on."""
    await process.until(open=0)
    return psutil.Process().num_fds()


async def test_three_hundred_streams_at_once(
    service: Service, process: ModelProcess, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at(process, monkeypatch)
    source = opened(service)
    files_before = await _open_files(process)
    sinks = [RecordingSink() for _ in range(STREAMS)]
    calls = [
        asyncio.ensure_future(source.generate(asks(demo(tokens=50, gap_ms=50, seed=seed)), sink))
        for seed, sink in enumerate(sinks)
    ]
    finishes = await asyncio.gather(*calls)
    assert [sink.text for sink in sinks] == ["".join(demo_tokens(seed, 50)) for seed in range(STREAMS)]
    assert finishes == [ModelFinish("stop", Usage(prompt_tokens=4, completion_tokens=50))] * STREAMS
    await process.until(open=0)
    await source.close()
    await process.until(connections=0)
    assert psutil.Process().num_fds() <= files_before


async def test_three_hundred_cancellations_at_once(
    either: Service, process: ModelProcess, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at(process, monkeypatch)
    source = opened(either)
    files_before = await _open_files(process)
    question = asks(demo(tokens=1000, gap_ms=50))
    sinks = [RecordingSink() for _ in range(STREAMS)]
    calls = [asyncio.ensure_future(source.generate(question, sink)) for sink in sinks]
    await process.until(open=STREAMS)
    while not all(sink.tokens for sink in sinks):  # noqa: ASYNC110 - what fills them is what is tested
        await asyncio.sleep(0.01)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await process.until(open=0, connections=0)
    # Their places in the pool are free again.
    sinks = [RecordingSink() for _ in range(STREAMS)]
    await asyncio.gather(*(source.generate(asks(demo(tokens=2, gap_ms=0, seed=9)), sink) for sink in sinks))
    assert {sink.text for sink in sinks} == {"".join(demo_tokens(9, 2))}
    await source.close()
    await process.until(connections=0)
    assert psutil.Process().num_fds() <= files_before
