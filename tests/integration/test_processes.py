"""Several processes behind one port: any of them has any response, and one that is killed is missed
by nobody.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from itertools import cycle, islice
from pathlib import Path

import aiohttp
import psutil
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import ChatSession, call, demo, open_session
from tests.integration.conftest import ServeProcess
from tests.integration.server_process import (
    ROOT,
    STATE_SECONDS,
    ServerProcess,
    clean_environment,
    free_port,
    server_command,
)
from tests.integration.transports import AT_HANDLERS, read_whole

_PROCESSES = 2
_DRAIN_KEY = "a key that operators have"
# Each time it is cut off, a client comes back to whichever process the kernel chooses.
_TRIES = 20
_TOKENS, _GAP_MS = 80, 50


@pytest.fixture
def server(serve_process: ServeProcess, tmp_path: Path) -> ServerProcess:
    """Two processes."""
    return serve_process(
        processes=_PROCESSES,
        store="sqlite",
        store_path=tmp_path / "evenflow.db",
        drain_seconds=20,
        drain_key=_DRAIN_KEY,
    )


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A client whose calls may reach any process: each has a connection of its own."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as client:
        yield client


def _handlers(server: ServerProcess) -> list[psutil.Process]:
    handlers: list[psutil.Process] = psutil.Process(server.process.pid).children()
    return handlers


async def _ask(session: ChatSession, seed: int) -> str:
    posted = await session.post("m1", None, demo(tokens=_TOKENS, gap_ms=_GAP_MS, seed=seed))
    assert posted.status == 202, posted.body
    response_id: str = posted.json["response_id"]
    return response_id


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(STATE_SECONDS):
        while not condition():  # noqa: ASYNC110 - processes have no event to wait for
            await asyncio.sleep(0.02)


async def _samples(http: aiohttp.ClientSession, server: ServerProcess) -> list[str]:
    """One gauge on the page of metrics, once for each process."""
    page = (await call(http, "GET", f"{server.http_url}/metrics")).body.decode()
    assert page.count("# TYPE evenflow_ws_active_connections ") == 1
    return [line for line in page.splitlines() if line.startswith("evenflow_ws_active_connections")]


async def test_an_answer_is_read_at_either_and_all_leave_together(
    server: ServerProcess, http: aiohttp.ClientSession
) -> None:
    session = await open_session(http, server.http_url)
    response_id = await _ask(session, 11)
    reading = [
        asyncio.create_task(read_whole(transport, [session] * _TRIES, response_id))
        for transport in AT_HANDLERS.values()
    ]
    found: set[str] = set()
    async with asyncio.timeout(STATE_SECONDS):
        while found != {"owner", "peer"}:
            polled = await session.poll(response_id)
            found.add(polled.headers["Evenflow-Via"])
    samples = await _samples(http, server)
    # The process that was asked tells its own first.
    assert sorted(sample.partition(" ")[0] for sample in samples) == [
        'evenflow_ws_active_connections{process="0"}',
        'evenflow_ws_active_connections{process="1"}',
    ]
    key = {"Authorization": f"Bearer {_DRAIN_KEY}"}
    told = await call(http, "POST", f"{server.http_url}/drain", headers=key)
    assert (told.status, told.json) == (202, {"status": "draining"})
    for answer in await asyncio.gather(*reading):
        assert (answer.text, answer.finish_reason) == ("".join(demo_tokens(11, _TOKENS)), "stop")
    assert await server.ended() == 0
    assert server.log.count("leaving") == 1


async def test_metrics_at_a_port_of_their_own_are_those_of_all(
    serve_process: ServeProcess, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    port = free_port()
    server = serve_process(
        processes=_PROCESSES,
        store="sqlite",
        store_path=tmp_path / "evenflow.db",
        metrics_port=port,
    )
    page = (await call(http, "GET", f"http://127.0.0.1:{port}/metrics")).body.decode()
    for process in range(_PROCESSES):
        assert f'evenflow_ws_active_connections{{process="{process}"}}' in page
    for _ in range(_TRIES):
        assert (await call(http, "GET", f"{server.http_url}/metrics")).status == 404
        assert (await call(http, "GET", f"http://127.0.0.1:{port}/health")).status == 404


async def test_one_that_is_killed_is_missed_by_nobody_and_started_again(
    server: ServerProcess, http: aiohttp.ClientSession
) -> None:
    answers = [Answer() for _ in range(12)]

    async def read(number: int, answer: Answer) -> None:
        session = await open_session(http, server.http_url)
        response_id = await _ask(session, number)
        (transport,) = islice(cycle(AT_HANDLERS.values()), number, number + 1)
        await read_whole(transport, [session] * _TRIES, response_id, answer)

    reading = [asyncio.create_task(read(number, it)) for number, it in enumerate(answers)]
    await _until(lambda: all(answer.last >= 5 for answer in answers))
    killed = _handlers(server)[0]
    killed.kill()
    await asyncio.gather(*reading)
    for number, answer in enumerate(answers):
        assert (answer.text, answer.finish_reason) == (
            "".join(demo_tokens(number, _TOKENS)), "stop",
        )  # fmt: skip
    assert {answer.epoch for answer in answers} == {1, 2}, "half of them changed hands"
    assert "ended with status -9" in server.log
    await _until(lambda: len(_handlers(server)) == _PROCESSES)
    async with asyncio.timeout(STATE_SECONDS):
        while len(await _samples(http, server)) < _PROCESSES:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def test_when_the_supervisor_is_killed_no_process_stays(server: ServerProcess) -> None:
    handlers = _handlers(server)
    assert len(handlers) == _PROCESSES
    server.kill()
    _, alive = psutil.wait_procs(handlers, timeout=STATE_SECONDS)
    assert alive == []


@pytest.mark.parametrize("variable", ["EVENFLOW_HTTP_PORT", "EVENFLOW_AGENTS"])
def test_a_start_that_fails_says_so_once(variable: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        wrong = {
            "EVENFLOW_HTTP_PORT": str(busy.getsockname()[1]),
            "EVENFLOW_AGENTS": str(tmp_path / "none.toml"),
        }
        variables = {
            "EVENFLOW_PROCESSES": "3",
            "EVENFLOW_STORE_PATH": str(tmp_path / "evenflow.db"),
            "EVENFLOW_HTTP_PORT": str(free_port()),
            variable: wrong[variable],
        }
        ended = subprocess.run(
            server_command(),
            cwd=ROOT,
            env=clean_environment(variables),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.strip().splitlines()
    assert line.startswith(f"evenflow: {variable}")
