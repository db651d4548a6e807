"""Handlers and workers as real processes: what a client sees over its WebSocket, and what the workers do meanwhile."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence

import aiohttp
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import ChatSession, checked_error, demo, open_session
from tests.integration.conftest import OpenSession, ServeProcess
from tests.integration.grpc_workers.conftest import Workers
from tests.integration.grpc_workers.worker_process import WorkerProcess
from tests.integration.server_process import ServerProcess, free_port

_CANCEL_MS = 200.0
_STREAMS, _PER_SESSION = 500, 4


@pytest.fixture(name="opened")
def opened_over_http(http: aiohttp.ClientSession) -> OpenSession:
    """Open sessions; in this folder `opened` is otherwise a token source."""

    async def opened(server: ServerProcess, **body: str) -> ChatSession:
        return await open_session(http, server.http_url, **body)

    return opened


def _in_front_of(serve_process: ServeProcess, workers: Sequence[WorkerProcess], **settings: object) -> ServerProcess:
    addresses = ",".join(worker.address for worker in workers)
    return serve_process(**{"model": "grpc", "workers": addresses, "fallback_text": "", **settings})


def _text(seed: int, tokens: int) -> str:
    return "".join(demo_tokens(seed, tokens))


async def test_five_hundred_streams_from_two_workers(
    serve_process: ServeProcess, workers: Workers, opened: OpenSession
) -> None:
    pair = [workers(), workers()]
    server = _in_front_of(serve_process, pair)

    async def ask(first: int) -> list[Answer]:
        session, starts, previous = await opened(server), [], None
        async with session.connect() as connection:
            for seed in range(first, first + _PER_SESSION):
                # The first token waits until all have asked.
                question = demo(tokens=30, gap_ms=50, first_token_ms=5000, seed=seed)
                starts.append(await connection.message(f"m{seed}", previous, question))
                previous = f"m{seed}"
            return [await connection.whole(start["response_id"], 40) for start in starts]

    asked = [asyncio.ensure_future(ask(first)) for first in range(0, _STREAMS, _PER_SESSION)]
    await server.until_metric("generations_running", _STREAMS, 20)
    for worker in pair:
        await worker.until_streams(_STREAMS // 2)
    answers = [answer for answers in await asyncio.gather(*asked) for answer in answers]
    assert [answer.text for answer in answers] == [_text(seed, 30) for seed in range(_STREAMS)]
    assert {answer.finish_reason for answer in answers} == {"stop"}
    assert not any(answer.restarts for answer in answers)
    usage = {"prompt_tokens": 5, "completion_tokens": 30}
    assert all(answer.end is not None and answer.end["usage"] == usage for answer in answers[::_PER_SESSION])
    assert [(await worker.describe()).streams for worker in pair] == [0, 0]


async def test_a_worker_killed_in_the_middle_is_replaced(
    serve_process: ServeProcess, workers: Workers, opened: OpenSession
) -> None:
    lost, kept = workers(), workers()
    server = _in_front_of(serve_process, [lost, kept])
    begun = asyncio.Barrier(21)

    async def ask(seed: int) -> Answer:
        session = await opened(server)
        async with session.connect() as connection:
            question = demo(tokens=60, gap_ms=30, seed=seed)
            start = await connection.message("m1", None, question)
            await connection.reach(start["response_id"], 2)
            await begun.wait()
            return await connection.whole(start["response_id"])

    asked = [asyncio.ensure_future(ask(seed)) for seed in range(20)]
    await begun.wait()
    lost.kill()
    answers = await asyncio.gather(*asked)
    assert [answer.text for answer in answers] == [_text(seed, 60) for seed in range(20)]
    assert [answer.restarts for answer in answers] == [[]] * len(answers), "the other worker went on with the text"
    session = await opened(server)
    async with session.connect() as connection:
        for number in range(6):
            answer = await connection.ask(f"m{number}", f"m{number - 1}" if number else None, demo(tokens=3, gap_ms=1))
            assert (answer.finish_reason, answer.restarts) == ("stop", []), "the lost one is not asked"


async def test_the_only_worker_killed_ends_by_the_contract(
    serve_process: ServeProcess, workers: Workers, opened: OpenSession
) -> None:
    worker = workers()
    server = _in_front_of(serve_process, [worker])
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=1000, gap_ms=20))
        await connection.reach(start["response_id"], 2)
        worker.kill()
        answer = await connection.whole(start["response_id"])
    error = checked_error(answer.end or {})
    assert (error["type"], error["code"]) == ("upstream_error", "upstream_failed")
    assert worker.address not in error["message"]
    await server.until_metric("generations_running", 0)


async def test_a_worker_that_falls_silent_is_found_before_the_first_token_is_due(
    serve_process: ServeProcess, workers: Workers, opened: OpenSession
) -> None:
    silent, awake = workers(), workers()
    server = _in_front_of(serve_process, [silent, awake], model_first_sign_seconds=60)
    session = await opened(server)
    async with session.connect() as connection:
        await connection.ask("m0", None, demo(tokens=1))
        silent.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        previous, starts = "m0", []
        for number in range(1, 5):
            starts.append(await connection.message(f"m{number}", previous, demo(tokens=20, gap_ms=5, seed=number)))
            previous = f"m{number}"
        answers = [await connection.whole(start["response_id"], seconds=35) for start in starts]
        took = time.monotonic() - began
    silent.kill()
    assert [answer.text for answer in answers] == [_text(number, 20) for number in range(1, 5)]
    assert not any(answer.restarts for answer in answers), "nobody had seen anything of it"
    assert 1 < took < 30, "some of them were with the silent one"


async def test_cancelling_stops_the_worker(serve_process: ServeProcess, workers: Workers, opened: OpenSession) -> None:
    worker = workers()
    server = _in_front_of(serve_process, [worker])
    session, taken, previous = await opened(server), [], None
    async with session.connect() as connection:
        for number in range(5):
            start = await connection.message(f"m{number}", previous, demo(tokens=5000, gap_ms=20))
            previous = f"m{number}"
            await connection.reach(start["response_id"], 2)
            stopping = asyncio.ensure_future(worker.until_streams(0))
            await asyncio.sleep(0.1)
            assert not stopping.done()
            began = time.monotonic()
            await connection.send("response.cancel", response_id=start["response_id"])
            taken.append((await stopping - began) * 1000)
            assert (await connection.whole(start["response_id"])).finish_reason == "cancelled"
    # The best one: the machine is shared, and a try may wait for its turn.
    assert min(taken) < _CANCEL_MS, taken


async def test_a_deadline_stops_the_worker(serve_process: ServeProcess, workers: Workers, opened: OpenSession) -> None:
    worker = workers()
    server = _in_front_of(
        serve_process,
        [worker],
        model_first_sign_seconds=0.5,
        model_silence_seconds=0.5,
        model_deadline_seconds=30,
        model_retries=0,
    )
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, demo(tokens=10, hang_after=3))
    assert checked_error(answer.end or {})["code"] == "model_timeout"
    await worker.until_streams(0)


async def test_a_handler_that_is_gone_or_silent_stops_the_worker(
    serve_process: ServeProcess, workers: Workers, opened: OpenSession
) -> None:
    worker = workers()
    lost, silent = (_in_front_of(serve_process, [worker]) for _ in range(2))
    for server in (lost, silent):
        session = await opened(server)
        await session.post("m1", None, demo(tokens=5000, gap_ms=20))
    await worker.until_streams(2)
    lost.kill()
    await worker.until_streams(1)
    with silent.suspended():
        await worker.until_streams(0, 30.0)
    await silent.until_metric("generations_running", 1)


async def test_a_paused_reader_holds_the_worker_at_a_bounded_number_of_tokens(
    serve_process: ServeProcess, workers: Workers, opened: OpenSession
) -> None:
    worker = workers(worker_buffer_tokens=100)
    server = _in_front_of(serve_process, [worker], pause_window_bytes=1000)
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=10000, gap_ms=0.2, seed=5))
        response_id = start["response_id"]
        held = await connection.reach(response_id, 2)
        await connection.send("response.pause", response_id=response_id)
        before = await _still(worker)
        await asyncio.sleep(0.5)
        after = await worker.describe()
        assert after.tokens_taken == before, "the model stands still"
        # What came in one turn of the demo model's clock is on top, fifty tokens, and more when the turn came late.
        assert 100 <= after.tokens_waiting < 1_000
        assert after.tokens_taken < 5_000
        await connection.send("response.continue", response_id=response_id)
        await connection.whole(response_id)
    assert held.text == _text(5, 10_000)
    assert held.restarts == []


async def _still(worker: WorkerProcess) -> int:
    """The tokens that its model has given when it gives no more."""
    before, now = -1, 0
    async with asyncio.timeout(30):
        while before != now or not now:
            before = now
            await asyncio.sleep(0.25)
            now = (await worker.describe()).tokens_taken
    return now


async def test_a_worker_that_leaves_finishes_its_answers_and_gets_no_new_ones(
    serve_process: ServeProcess, workers: Workers, opened: OpenSession
) -> None:
    leaving, staying = workers(drain_seconds=20), workers()
    server = _in_front_of(serve_process, [leaving, staying])
    session = await opened(server)
    async with session.connect() as connection:
        starts, previous = [], None
        for number in range(4):
            starts.append(await connection.message(f"m{number}", previous, demo(tokens=150, gap_ms=30, seed=number)))
            previous = f"m{number}"
        for start in starts:
            await connection.reach(start["response_id"], 1)
        assert (await leaving.describe()).streams == 2
        leaving.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        other = await opened(server)
        async with other.connect() as another:
            answers = [await another.ask("m1", None, demo(tokens=3, gap_ms=1, seed=9))]
        answers += [await connection.whole(start["response_id"]) for start in starts]
    assert [answer.text for answer in answers] == [_text(9, 3), *(_text(number, 150) for number in range(4))]
    assert not any(answer.restarts for answer in answers)
    assert await asyncio.to_thread(leaving.process.wait, 10) == 0, "it does not wait for the rest of its time"


async def test_what_a_leaving_worker_has_no_time_to_finish_is_continued_elsewhere(
    serve_process: ServeProcess, workers: Workers, opened: OpenSession
) -> None:
    leaving, staying = workers(drain_seconds=0.3), workers()
    server = _in_front_of(serve_process, [leaving, staying])
    session = await opened(server)
    async with session.connect() as connection:
        starts, previous = [], None
        for number in range(4):
            starts.append(await connection.message(f"m{number}", previous, demo(tokens=150, gap_ms=30, seed=number)))
            previous = f"m{number}"
        for start in starts:
            await connection.reach(start["response_id"], 1)
        leaving.process.send_signal(signal.SIGTERM)
        answers = [await connection.whole(start["response_id"]) for start in starts]
    assert [answer.text for answer in answers] == [_text(number, 150) for number in range(4)]
    assert [answer.restarts for answer in answers] == [[]] * 4, "the other worker went on with the text"


async def test_health_is_told_by_grpcs_own_protocol(workers: Workers) -> None:
    worker = workers(drain_seconds=1)
    async with grpc.aio.insecure_channel(worker.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "llm.v1.Inference"):
            said = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert said.status == health_pb2.HealthCheckResponse.SERVING
        watching = stub.Watch(health_pb2.HealthCheckRequest(service="llm.v1.Inference"))
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
        worker.process.send_signal(signal.SIGTERM)
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watching.cancel()


async def test_a_worker_and_its_handler_may_start_in_any_order(
    serve_process: ServeProcess, workers: Workers, opened: OpenSession
) -> None:
    port = free_port()
    server = serve_process(model="grpc", workers=f"127.0.0.1:{port}", model_retries=0, fallback_text="")
    session = await opened(server)
    async with session.connect() as connection:
        assert checked_error((await connection.ask("m1", None, demo(tokens=3))).end or {})["code"] == "upstream_failed"
        workers(worker_port=port)
        previous = "m1"
        for number in range(100):
            answer = await connection.ask(f"n{number}", previous, demo(tokens=3, gap_ms=1))
            previous = f"n{number}"
            if answer.finish_reason == "stop":
                return
            await asyncio.sleep(0.1)
    raise AssertionError("the worker is there and is not asked")
