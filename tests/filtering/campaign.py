"""Plants secrets in answers and looks for them wherever the node has sent or written something."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import aiohttp

from tests.filtering.planted import traces_of
from tests.filtering.planting_model import PLACES, PlantingModel, plan_of, planting_model
from tests.filtering.reading import ASKED, PROTOCOLS, read_asked, read_chat
from tests.filtering.recording_proxy import RecordingProxy, recording_proxy
from tests.integration.server_process import ServerProcess

_IN_A_PLAN = 25
_AT_ONCE = 8


@dataclass
class Found:
    """What was looked through, and what of the secrets was there.

    Args:
        leaks: by where, how many traces of secrets were found.
        redacted: how often each protocol had `[redacted]`.
    """

    secrets: int
    leaks: dict[str, int] = field(default_factory=dict)
    redacted: dict[str, int] = field(default_factory=dict)
    answers: int = 0
    wire_bytes: int = 0


@dataclass
class Node:
    """A server behind a recording proxy, with a model that plants."""

    server: ServerProcess
    model: PlantingModel
    proxy: RecordingProxy
    http: aiohttp.ClientSession
    folder: Path


@asynccontextmanager
async def running_node(folder: Path, **settings: str) -> AsyncIterator[Node]:
    """Start one; keyword `filtering="hold"` is `EVENFLOW_FILTERING=hold`."""
    variables = {
        "EVENFLOW_MODEL": "openai",
        "EVENFLOW_MODELS": "planting=",
        "EVENFLOW_STORE": "sqlite",
        "EVENFLOW_STORE_PATH": str(folder / "evenflow.db"),
        "EVENFLOW_SESSIONS_PER_ADDRESS_PER_SECOND": "1000",
        **{f"EVENFLOW_{name.upper()}": value for name, value in settings.items()},
    }
    connector = aiohttp.TCPConnector(limit=0)
    async with planting_model() as model, aiohttp.ClientSession(connector=connector) as http:
        server = ServerProcess(folder / "server.log", variables | {"EVENFLOW_MODEL_URL": model.url})
        await asyncio.to_thread(server.wait_until_serving)
        try:
            with (folder / "wire").open("wb") as wire:
                async with recording_proxy(server.port, wire) as proxy:
                    yield Node(server, model, proxy, http, folder)
        finally:
            await asyncio.to_thread(server.stop)


async def plant(folder: Path, secrets: int, seed: int, **settings: str) -> Found:
    """Plant so many secrets, read them over all protocols, and look for them."""
    random = Random(seed)
    found = Found(secrets)
    traces: list[str] = []
    texts: dict[str, list[str]] = {protocol: [] for protocol in PROTOCOLS}
    turns = asyncio.Semaphore(_AT_ONCE)
    async with running_node(folder, **settings) as node:

        async def ask(number: int, first: int) -> None:
            count = min(_IN_A_PLAN, secrets - first)
            plan = plan_of(random, first, count, PLACES[number % len(PLACES)])
            node.model.plans[number] = plan
            traces.extend(trace for secret in plan.secrets for trace in traces_of(secret))
            names = list(ASKED)
            asked = {names[number % len(names)], names[(number + 2) % len(names)]}
            async with turns:
                told = [await read_chat(node.http, node.proxy.url, number, random)]
                told += [
                    await read_asked(node.http, node.proxy.url, number, name) for name in asked
                ]
            del node.model.plans[number]
            found.answers += len(told) + 1
            for protocol, text in ((name, text) for each in told for name, text in each.items()):
                texts[protocol].append(text)

        firsts = range(0, secrets, _IN_A_PLAN)
        await asyncio.gather(*(ask(number, first) for number, first in enumerate(firsts)))
        found.wire_bytes = node.proxy.bytes
    await asyncio.to_thread(_look, found, folder, traces, texts)
    return found


def _look(found: Found, folder: Path, traces: list[str], texts: dict[str, list[str]]) -> None:
    """Look for the traces in all that was sent, read, stored and logged."""
    (folder / "traces").write_text("\n".join(traces))
    for protocol, each in texts.items():
        (folder / f"text of {protocol}").write_text("\n".join(each))
        found.redacted[protocol] = sum(text.count("[redacted]") for text in each)
    looked_through = [*folder.glob("text of *"), *folder.glob("evenflow.db*")]
    for file in [*looked_through, folder / "wire", folder / "server.log"]:
        found.leaks[file.name] = _count_of(folder / "traces", file)


def _count_of(traces: Path, looked_through: Path) -> int:
    """How many of the traces are in a file, however often."""
    command = ["grep", "--text", "--only-matching", "--fixed-strings", "--file"]
    done = subprocess.run(
        [*command, traces, looked_through], capture_output=True, check=False, env={"LC_ALL": "C"}
    )
    assert done.returncode in (0, 1), done.stderr
    return len(set(done.stdout.splitlines()))


def percentile(values: Iterable[float], percent: float) -> float:
    """The value that so many percent are at most."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
