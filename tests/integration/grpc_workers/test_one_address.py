"""Several workers behind one name, as ECS Service Connect shows them: no single one of them is
the end of an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest

from evenflow.fargate_handler.inference import worker_source as grpc_worker
from evenflow.fargate_handler.inference.worker_source import GrpcWorkers
from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.fargate_handler.token_sources.port import ModelRequest
from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.session.conversation import Turn
from tests.integration.answer import Answer
from tests.integration.chat_client import demo, open_session
from tests.integration.conftest import Serve
from tests.integration.grpc_workers.conftest import Lines, Opened, Serving, Workers
from tests.integration.grpc_workers.one_address import OneAddress
from tests.integration.grpc_workers.scripted_source import ScriptedSource, is_silent, says
from tests.integration.server_process import free_port
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_QUESTION = ModelRequest("demo", (Turn("user", "a question"),), 1)

Behind = Callable[..., Awaitable[str]]
"""One address for these workers."""


@pytest.fixture
async def behind() -> AsyncIterator[Behind]:
    started: list[OneAddress] = []

    async def behind(*workers: str) -> str:
        proxy = OneAddress(workers)
        started.append(proxy)
        await proxy.start()
        return proxy.address

    yield behind
    for proxy in started:
        await proxy.stop()


async def _answered(source: GrpcWorkers) -> None:
    sink = RecordingSink()
    await source.generate(_QUESTION, sink)
    assert sink.tokens == ["an ", "answer"]


async def _until_it_continues(source: GrpcWorkers) -> None:
    async with asyncio.timeout(20):
        while not source.continues:  # noqa: ASYNC110 - the other side is what is tested
            await asyncio.sleep(0.05)


async def test_answers_go_to_all_of_them(serving: Serving, opened: Opened, behind: Behind) -> None:
    models = [ScriptedSource(says("an ", "answer")) for _ in range(2)]
    source = opened([await behind(*[(await serving(model)).address for model in models])])
    await asyncio.gather(*(_answered(source) for _ in range(20)))
    assert min(len(model.requests) for model in models) >= 5


async def test_a_worker_that_is_gone_costs_no_attempt(
    serving: Serving, opened: Opened, behind: Behind
) -> None:
    model = ScriptedSource(says("an ", "answer"))
    leaving, staying = await serving(ScriptedSource(says("an ", "answer"))), await serving(model)
    source = opened([await behind(leaving.address, staying.address)], worker_rest_seconds=3_600)
    await _answered(source)
    await leaving.stop()
    # The address rests after the first of these, and is asked all the same.
    for _ in range(10):
        await _answered(source)
    assert len(model.requests) >= 10


async def test_a_full_worker_costs_no_attempt(
    serving: Serving, opened: Opened, behind: Behind
) -> None:
    silent, model = ScriptedSource(is_silent), ScriptedSource(says("an ", "answer"))
    full, other = await serving(silent, generations_per_node=1), await serving(model)
    directly = asyncio.create_task(opened([full.address]).generate(_QUESTION, RecordingSink()))
    await silent.until_running(1)
    source = opened([await behind(full.address, other.address)])
    for _ in range(10):
        await _answered(source)
    assert len(silent.requests) == 1
    directly.cancel()
    await asyncio.gather(directly, return_exceptions=True)


async def test_readers_of_a_lost_worker_get_their_answers_and_a_cancel_goes_all_the_way(
    serve: Serve, workers: Workers, lines: Lines, behind: Behind, http: aiohttp.ClientSession
) -> None:
    line, kept = await lines((await workers()).address), await workers()
    server = await serve(
        model="grpc", workers=await behind(line.address, kept.address), fallback_text=""
    )
    begun = asyncio.Barrier(11)

    async def ask(seed: int) -> Answer:
        session = await open_session(http, server.http_url)
        async with session.connect() as connection:
            start = await connection.message("m1", None, demo(tokens=60, gap_ms=30, seed=seed))
            await connection.reach(start["response_id"], 2)
            await begun.wait()
            return await connection.whole(start["response_id"])

    asked = [asyncio.ensure_future(ask(seed)) for seed in range(10)]
    await begun.wait()
    line.cut()
    answers = await asyncio.gather(*asked)
    assert [answer.text for answer in answers] == [
        "".join(demo_tokens(seed, 60)) for seed in range(10)
    ]
    assert [answer.restarts for answer in answers] == [[]] * 10, (
        "the other worker went on with the text"
    )

    session = await open_session(http, server.http_url)
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=10_000, gap_ms=20))
        await connection.reach(start["response_id"], 2)
        await kept.until_streams(1)
        await connection.send("response.cancel", response_id=start["response_id"])
        await kept.until_streams(0)


async def test_where_none_is_left_the_attempt_fails_at_once(opened: Opened, behind: Behind) -> None:
    source = opened([await behind(f"127.0.0.1:{free_port()}")])
    with pytest.raises(UpstreamFailed):
        async with asyncio.timeout(20):
            await _answered(source)


async def test_an_address_that_leads_nowhere_beside_it_is_no_hindrance(
    serving: Serving, opened: Opened, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Service Connect's agent writes an IPv6 address into /etc/hosts even where the task has no
    IPv6.
    """
    model = ScriptedSource(says("an ", "answer"), continues=True)
    address = await behind((await serving(model)).address)

    async def both(*_: object) -> dict[str, str]:
        return {f"ipv4:{address}": "workers:50051", "ipv6:[2600:f0f0::1]:50051": "workers:50051"}

    monkeypatch.setattr(grpc_worker, "resolve", both)
    source = opened(["workers:50051"])
    for _ in range(10):
        await _answered(source)
    await _until_it_continues(source)
    await source.generate(
        ModelRequest("demo", (Turn("user", "a question"),), 1, "the beginning"), RecordingSink()
    )
    assert model.requests[-1].prefix == "the beginning"
