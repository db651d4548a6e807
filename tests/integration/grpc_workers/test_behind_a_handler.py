"""Workers behind a handler: what its clients see, and what the workers do meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelRequest, TokenSink
from evenflow.stream_core.base.answer import Usage
from tests.integration.answer import Answer, Frame
from tests.integration.chat_client import ChatSession, Connection, checked_error, demo, open_session
from tests.integration.conftest import OpenSession, Serve
from tests.integration.grpc_workers.conftest import Lines, Serving, Workers
from tests.integration.grpc_workers.line import PING_SECONDS, short_pings
from tests.integration.grpc_workers.scripted_source import FINISH, ScriptedSource, goes_on
from tests.integration.grpc_workers.workers import WorkerInLoop
from tests.integration.local_server import LocalServer
from tests.integration.server_process import Server
from tests.integration.spending import BOUND, INPUT, Spender

_CANCEL_MS = 200.0
# More on one connection than some servers of HTTP/2 allow.
_STREAMS, _PER_SESSION = 240, 4


@pytest.fixture(name="opened")
def opened_over_http(http: aiohttp.ClientSession) -> OpenSession:
    """Open sessions; in this folder `opened` is otherwise a token source."""

    async def opened(server: Server, **body: str) -> ChatSession:
        return await open_session(http, server.http_url, **body)

    return opened


async def _in_front_of(serve: Serve, addresses: Iterable[str], **settings: Any) -> LocalServer:
    return await serve(
        **{"model": "grpc", "workers": ",".join(addresses), "fallback_text": "", **settings}
    )


def _text(seed: int, tokens: int) -> str:
    return "".join(demo_tokens(seed, tokens))


async def _begin(connection: Connection, answers: int, **directives: object) -> list[Frame]:
    """Ask so many questions, with seeds from 0; returns their starts when all have begun."""
    starts, previous = [], None
    for number in range(answers):
        question = demo(seed=number, **directives)
        starts.append(await connection.message(f"m{number}", previous, question))
        previous = f"m{number}"
    for start in starts:
        await connection.reach(start["response_id"], 1)
    return starts


async def test_hundreds_of_streams_from_two_workers(
    serve: Serve, serving: Serving, opened: OpenSession
) -> None:
    all_have_asked = asyncio.Event()

    async def recite(request: ModelRequest, sink: TokenSink) -> ModelFinish:
        await all_have_asked.wait()
        for token in demo_tokens(int(request.turns[-1].text), 30):
            sink.push(token)
            await asyncio.sleep(0)
        return FINISH

    models = [ScriptedSource(recite), ScriptedSource(recite)]
    server = await _in_front_of(serve, [(await serving(model)).address for model in models])

    async def ask(first: int) -> list[Answer]:
        session, starts, previous = await opened(server), [], None
        async with session.connect() as connection:
            for seed in range(first, first + _PER_SESSION):
                starts.append(await connection.message(f"m{seed}", previous, str(seed)))
                previous = f"m{seed}"
            return [await connection.whole(start["response_id"]) for start in starts]

    asked = [asyncio.ensure_future(ask(first)) for first in range(0, _STREAMS, _PER_SESSION)]
    for model in models:
        await model.until_running(_STREAMS // 2)
    assert await server.metric("generations_running") == _STREAMS
    all_have_asked.set()
    answers = [answer for answers in await asyncio.gather(*asked) for answer in answers]
    assert [answer.text for answer in answers] == [_text(seed, 30) for seed in range(_STREAMS)]
    assert {answer.finish_reason for answer in answers} == {"stop"}
    assert not any(answer.restarts for answer in answers)
    usage = {"prompt_tokens": 11, "completion_tokens": 42}
    assert all(answer.end is not None and answer.end["usage"] == usage for answer in answers)
    assert [model.running for model in models] == [0, 0]


async def test_the_only_worker_lost_ends_by_the_contract(
    serve: Serve, workers: Workers, lines: Lines, opened: OpenSession
) -> None:
    line = await lines((await workers()).address)
    server = await _in_front_of(serve, [line.address])
    session = await opened(server)
    async with session.connect() as connection:
        (start,) = await _begin(connection, 1, tokens=1000, gap_ms=20)
        line.cut()
        answer = await connection.whole(start["response_id"])
    error = checked_error(answer.end or {})
    assert (error["type"], error["code"]) == ("upstream_error", "upstream_failed")
    assert line.address not in error["message"]
    await server.until_metric("generations_running", 0)


async def test_a_worker_that_falls_silent_is_found_before_the_first_token_is_due(
    serve: Serve, workers: Workers, lines: Lines, opened: OpenSession
) -> None:
    line, awake = await lines((await workers()).address), await workers()
    with short_pings():
        server = await _in_front_of(
            serve, [line.address, awake.address], model_first_sign_seconds=60
        )
        session = await opened(server)
        async with session.connect() as connection:
            await connection.ask("m0", None, demo(tokens=1))
            line.fall_silent()
            began = time.monotonic()
            previous, starts = "m0", []
            for number in range(1, 5):
                starts.append(
                    await connection.message(
                        f"m{number}", previous, demo(tokens=20, gap_ms=5, seed=number)
                    )
                )
                previous = f"m{number}"
            answers = [await connection.whole(start["response_id"], seconds=20) for start in starts]
            took = time.monotonic() - began
    assert [answer.text for answer in answers] == [_text(number, 20) for number in range(1, 5)]
    assert not any(answer.restarts for answer in answers), "nobody had seen anything of it"
    assert took > PING_SECONDS, "some of them were with the silent one"


async def test_cancelling_stops_the_worker(
    serve: Serve, workers: Workers, opened: OpenSession
) -> None:
    worker = await workers()
    server = await _in_front_of(serve, [worker.address])
    session, taken, previous = await opened(server), [], None
    async with session.connect() as connection:
        for number in range(3):
            start = await connection.message(f"m{number}", previous, demo(tokens=5000, gap_ms=20))
            previous = f"m{number}"
            await connection.reach(start["response_id"], 2)
            assert (await worker.describe()).streams == 1
            began = time.monotonic()
            await connection.send("response.cancel", response_id=start["response_id"])
            taken.append((await worker.until_streams(0) - began) * 1000)
            assert (await connection.whole(start["response_id"])).finish_reason == "cancelled"
    # The best one: the machine is shared, and a try may wait for its turn.
    assert min(taken) < _CANCEL_MS, taken


async def test_a_deadline_stops_the_worker(
    serve: Serve, workers: Workers, opened: OpenSession
) -> None:
    worker = await workers()
    server = await _in_front_of(
        serve,
        [worker.address],
        model_first_sign_seconds=5,
        model_silence_seconds=5,
        model_deadline_seconds=30,
        model_retries=0,
    )
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=10, gap_ms=1, hang_after=3))
        answer = await connection.reach(start["response_id"], 0)
        while answer.text != _text(1, 3):
            await connection.receive()
        # Its last sign of life is noticed within three seconds.
        await serve.time_passes(9)
        await connection.whole(start["response_id"])
    assert checked_error(answer.end or {})["code"] == "model_timeout"
    await worker.until_streams(0)


async def test_a_handler_that_is_gone_or_silent_stops_the_worker(
    serve: Serve, workers: Workers, lines: Lines, opened: OpenSession
) -> None:
    with short_pings():
        worker = await workers()
    gone, silent = await lines(worker.address), await lines(worker.address)
    for line in (gone, silent):
        server = await _in_front_of(serve, [line.address])
        session = await opened(server)
        await session.post("m1", None, demo(tokens=5000, gap_ms=20))
    await worker.until_streams(2)
    gone.cut()
    await worker.until_streams(1)
    silent.fall_silent()
    await worker.until_streams(0)
    silent.carry_on()
    await worker.until_streams(1)
    assert await server.metric("generations_running") == 1, "it has asked once more"


async def test_a_paused_reader_holds_the_worker_at_a_bounded_number_of_tokens(
    serve: Serve, workers: Workers, opened: OpenSession
) -> None:
    worker = await workers(worker_buffer_tokens=100, worker_window_bytes=1024)
    server = await _in_front_of(
        serve, [worker.address], pause_window_bytes=1000, worker_window_bytes=1024
    )
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=4000, gap_ms=0.2, seed=5))
        response_id = start["response_id"]
        held = await connection.reach(response_id, 2)
        await connection.send("response.pause", response_id=response_id)
        before = await _still(worker)
        await asyncio.sleep(0.3)
        after = await worker.describe()
        assert after.tokens_taken == before, "the model stands still"
        # What came in one turn of the demo model's clock is on top: fifty tokens, or more when the
        # turn came late.
        assert 100 <= after.tokens_waiting < 1_000
        assert after.tokens_taken < 2_000
        await connection.send("response.continue", response_id=response_id)
        await connection.whole(response_id)
    assert held.text == _text(5, 4_000)
    assert held.restarts == []


async def _still(worker: WorkerInLoop) -> int:
    """The tokens that its model has given when it gives no more."""
    before, now = -1, 0
    async with asyncio.timeout(30):
        while before != now or not now:
            before = now
            await asyncio.sleep(0.1)
            now = (await worker.describe()).tokens_taken
    return now


async def test_what_a_leaving_worker_has_no_time_to_finish_is_continued_elsewhere(
    serve: Serve, workers: Workers, opened: OpenSession
) -> None:
    leaving, staying = await workers(drain_seconds=0.1), await workers()
    server = await _in_front_of(serve, [leaving.address, staying.address])
    session = await opened(server)
    async with session.connect() as connection:
        starts = await _begin(connection, 4, tokens=100, gap_ms=10)
        await leaving.leave()
        answers = [await connection.whole(start["response_id"]) for start in starts]
    assert [answer.text for answer in answers] == [_text(number, 100) for number in range(4)]
    assert [answer.restarts for answer in answers] == [[]] * 4, (
        "the other worker went on with the text"
    )


async def test_a_worker_that_goes_on_spends_no_more_than_is_reserved(
    serve: Serve, serving: Serving, http: aiohttp.ClientSession
) -> None:
    worker = await serving(ScriptedSource(goes_on))
    server = await _in_front_of(serve, [worker.address])
    spender = Spender(http, server)
    await spender.begin(serve)
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50}
    answer = await spender.ask("/v1/chat/completions", **body)
    assert answer.json["choices"][0]["finish_reason"] == "length", answer.body
    assert await spender.committed() <= INPUT + 50 + 1


async def test_absurd_counts_of_a_worker_charge_and_stop_nobody(
    serve: Serve, serving: Serving, http: aiohttp.ClientSession
) -> None:
    counts = Usage(2**63 - 1, 2**63 - 1), Usage(10**12, 10**12)
    ends = [ModelFinish("stop", usage, cache_written=2**63 - 1) for usage in counts]

    async def absurd(request: ModelRequest, sink: TokenSink) -> ModelFinish:
        sink.push("hello")
        return ends.pop(0)

    worker = await serving(ScriptedSource(absurd))
    server = await _in_front_of(serve, [worker.address], model_prices="default=900000/900000")
    spender = Spender(http, server)
    await spender.begin(serve)
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50}
    assert (await spender.ask("/v1/chat/completions", **body)).status == 200
    assert await spender.committed() == INPUT + 1
    assert (await spender.ask("/v1/chat/completions", **body)).status == 200
    assert INPUT + 1 < await spender.committed(2) < BOUND
