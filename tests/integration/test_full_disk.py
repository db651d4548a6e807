"""A disk of 80 MB: the sender that fills it is refused, and all others and the next start go on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import aiohttp
import pytest

from tests.integration.chat_client import ChatSession, call, demo, open_session
from tests.integration.server_process import STATE_SECONDS, ServerProcess

QUESTION = demo(tokens=3, gap_ms=0)
GREEDY, HONEST = "203.0.113.66", "198.51.100.7"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=80m", "evenflow", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a disk: run it as root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


Start = Callable[[], ServerProcess]


@pytest.fixture
def start(tmp_path: Path, disk: Path) -> Iterator[Start]:
    """Starts servers with a file on the disk, one after the other."""
    started = list[ServerProcess]()

    def start() -> ServerProcess:
        if started:
            started[-1].stop()
        store = {"EVENFLOW_STORE": "sqlite", "EVENFLOW_STORE_PATH": str(disk / "evenflow.db")}
        started.append(ServerProcess(tmp_path / f"server-{len(started)}.log", store))
        return started[-1].wait_until_serving()

    yield start
    started[-1].stop()


def free_mib(disk: Path) -> float:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize / 1_048_576


async def until(state: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + STATE_SECONDS
    while not state():
        assert time.monotonic() < give_up_at
        await asyncio.sleep(0.05)


async def fill(http: aiohttp.ClientSession, server: ServerProcess, seed: int = 0) -> str:
    """A request with 1.5 MB of noise, which is kept for a day. Returns what came of it."""
    noise = b64encode(Random(seed).randbytes(1_125_000)).decode()
    turns = [{"role": "user", "content": text} for text in (noise, QUESTION)]
    answer = await call(
        http,
        "POST",
        f"{server.http_url}/v1/responses",
        {"model": "demo", "input": turns},
        headers={"X-Forwarded-For": GREEDY},
    )
    return "answered" if answer.status == 200 else str(answer.error["code"])


async def ask(http: aiohttp.ClientSession, server: ServerProcess, address: str = HONEST) -> str:
    """A question of a new session, read to its end. Returns what came of it."""
    session: ChatSession = await open_session(http, server.http_url, address=address)
    posted = await session.post("m1", None, QUESTION)
    if posted.status != 202:
        return str(posted.error["code"])
    last, _, _ = await session.poll_whole(posted.json["response_id"])
    return str(last["status"])


async def test_the_one_that_fills_it_is_refused_and_all_else_goes_on(
    start: Start, disk: Path, http: aiohttp.ClientSession
) -> None:
    server = start()
    assert await ask(http, server) == "completed"
    outcomes = [await fill(http, server)]
    while outcomes[-1] == "answered" and len(outcomes) < 60:
        outcomes.append(await fill(http, server, len(outcomes)))
    assert outcomes[-1] == "store_full"
    assert len(outcomes) > 15
    assert free_mib(disk) > 10
    for _ in range(3):
        assert await ask(http, server) == "completed"
    assert await ask(http, server, GREEDY) == "completed", "another session of the same address"
    server = start()
    assert await ask(http, server) == "completed"
    # What is on its way is counted twice before: there may be room for one or two more.
    assert [await fill(http, server) for _ in range(4)][-1] == "store_full"
    assert await ask(http, server) == "completed"


async def test_a_disk_that_something_else_fills_stops_no_start_and_heals_by_itself(
    start: Start, disk: Path, http: aiohttp.ClientSession
) -> None:
    server, reserve, theirs = start(), disk / "evenflow.db-reserve", disk / "theirs"
    assert await ask(http, server) == "completed"
    await until(reserve.exists)
    with theirs.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(65_536))
    assert await ask(http, server) == "store_full"
    server = start()
    assert await ask(http, server) == "store_full"
    assert not reserve.exists()
    theirs.unlink()
    await until(reserve.exists)
    assert await ask(http, server) == "completed"
