"""A worker as a process: killed, told to leave by a signal, and asked by ECS whether it lives."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import aiohttp
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import demo, open_session
from tests.integration.conftest import Serve
from tests.integration.grpc_workers.conftest import WorkerProcesses, Workers
from tests.integration.grpc_workers.workers import WorkerProcess
from tests.integration.server_process import ROOT

_SERVING = health_pb2.HealthCheckResponse.SERVING


def _text(seed: int, tokens: int) -> str:
    return "".join(demo_tokens(seed, tokens))


async def test_a_worker_killed_in_the_middle_is_replaced(
    serve: Serve, workers: Workers, worker_processes: WorkerProcesses, http: aiohttp.ClientSession
) -> None:
    lost, kept = worker_processes(), await workers()
    server = await serve(model="grpc", workers=f"{lost.address},{kept.address}", fallback_text="")
    begun = asyncio.Barrier(21)

    async def ask(seed: int) -> Answer:
        session = await open_session(http, server.http_url)
        async with session.connect() as connection:
            start = await connection.message("m1", None, demo(tokens=80, gap_ms=30, seed=seed))
            await connection.reach(start["response_id"], 2)
            await begun.wait()
            return await connection.whole(start["response_id"])

    asked = [asyncio.ensure_future(ask(seed)) for seed in range(20)]
    await begun.wait()
    assert (await lost.describe()).streams == 10
    lost.kill()
    answers = await asyncio.gather(*asked)
    assert [answer.text for answer in answers] == [_text(seed, 80) for seed in range(20)]
    assert [answer.restarts for answer in answers] == [[]] * len(answers), (
        "the other worker went on with the text"
    )
    session = await open_session(http, server.http_url)
    async with session.connect() as connection:
        for number in range(6):
            answer = await connection.ask(
                f"m{number}", f"m{number - 1}" if number else None, demo(tokens=3, gap_ms=1)
            )
            assert (answer.finish_reason, answer.restarts) == ("stop", []), (
                "the lost one is not asked"
            )


async def test_a_worker_that_leaves_finishes_its_answers_and_gets_no_new_ones(
    serve: Serve, workers: Workers, worker_processes: WorkerProcesses, http: aiohttp.ClientSession
) -> None:
    leaving, staying = worker_processes(drain_seconds=20), await workers()
    assert await asyncio.to_thread(_probe, leaving) == (0, "")
    server = await serve(
        model="grpc", workers=f"{leaving.address},{staying.address}", fallback_text=""
    )
    session, other = [await open_session(http, server.http_url) for _ in range(2)]
    async with session.connect() as connection, other.connect() as another:
        starts, previous = [], None
        for number in range(4):
            starts.append(
                await connection.message(
                    f"m{number}", previous, demo(tokens=100, gap_ms=20, seed=number)
                )
            )
            previous = f"m{number}"
        for start in starts:
            await connection.reach(start["response_id"], 1)
        assert (await leaving.describe()).streams == 2
        await _signal(leaving)
        answers = [await another.ask("m1", None, demo(tokens=3, gap_ms=1, seed=9))]
        answers += [await connection.whole(start["response_id"]) for start in starts]
    assert [answer.text for answer in answers] == [
        _text(9, 3),
        *(_text(number, 100) for number in range(4)),
    ]
    assert not any(answer.restarts for answer in answers)
    assert (await staying.describe()).tokens_taken == 2 * 100 + 3, (
        "it went on with nothing of the other's"
    )
    assert await asyncio.to_thread(leaving.process.wait, 10) == 0, (
        "it does not wait for the rest of its time"
    )


async def _signal(leaving: WorkerProcess) -> None:
    """Tell it to leave; returns when it has said so by gRPC's own protocol."""
    async with grpc.aio.insecure_channel(leaving.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "llm.v1.Inference"):
            said = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert said.status == _SERVING
        watching = stub.Watch(health_pb2.HealthCheckRequest(service="llm.v1.Inference"))
        assert (await watching.read()).status == _SERVING
        leaving.process.send_signal(signal.SIGTERM)
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watching.cancel()


def _probe(worker: WorkerProcess) -> tuple[int, str]:
    """What ECS runs in a worker's container: its exit status, and what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "evenflow.fargate_handler.inference.probe"],
        cwd=ROOT,
        env=worker.environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stderr
