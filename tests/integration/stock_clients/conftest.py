"""Two scripted upstreams, a handler in front of one of them, and the clients that are asked to
see no difference.
"""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.conftest import ServeProcess, _serving
from tests.integration.server_process import ServerProcess, clean_environment
from tests.integration.stock_clients.clients import CLIENTS, QUIET, Client
from tests.integration.stock_clients.litellm_proxy import PROXY_KEY, litellm_proxy
from tests.integration.stock_clients.script import SILENCE_SECONDS
from tests.integration.stock_clients.upstream import MODEL, ScriptedUpstream, scripted_upstream

_CLIENT_SECONDS = 110


@dataclass(frozen=True)
class Side:
    """Where a client asks, and the model's server behind that."""

    url: str
    upstream: ScriptedUpstream
    model: str = MODEL
    key: str = "sk-anything"


@dataclass(frozen=True)
class Run:
    """What a client saw on one side, by its scenario, and what the model's server was asked for
    it.
    """

    client: str
    saw: dict[str, Any]
    asked: dict[str, list[dict[str, Any]]]

    def asked_for(self, scenario: str) -> list[dict[str, Any]]:
        """The requests of one scenario."""
        return self.asked.get(f"{self.client}.{scenario}", [])


Sides = dict[str, Side]
Runs = Callable[[str], dict[str, Run]]


@contextmanager
def running_upstream() -> Iterator[ScriptedUpstream]:
    """A scripted upstream that answers while a test waits for a process."""
    loop = asyncio.new_event_loop()
    started, stopped = threading.Event(), asyncio.Event()
    served: list[ScriptedUpstream] = []

    async def serve_process() -> None:
        async with scripted_upstream() as upstream:
            served.append(upstream)
            started.set()
            await stopped.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve_process()))
    thread.start()
    try:
        assert started.wait(20), "the scripted upstream did not start"
        yield served[0]
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        loop.close()


@contextmanager
def both_sides(serve_process: Callable[..., ServerProcess], **settings: object) -> Iterator[Sides]:
    """An upstream that is asked directly, and one behind Evenflow."""
    with ExitStack() as stack:
        direct, behind = (stack.enter_context(running_upstream()) for _ in range(2))
        server = serve_process(model="openai", model_url=behind.url, model_name=MODEL, **settings)
        yield {"direct": Side(direct.url, direct), "through": Side(f"{server.http_url}/v1", behind)}


def run_client(client: Client, sides: Sides, scenarios: list[str]) -> dict[str, Run]:
    """Run a client's scenarios on both sides."""
    servers = {
        name: {"url": side.url, "model": side.model, "key": side.key}
        for name, side in sides.items()
    }
    told = subprocess.run(
        [
            *client.command,
            json.dumps({"client": client.name, "servers": servers, "scenarios": scenarios}),
        ],
        env=clean_environment(QUIET),
        capture_output=True,
        timeout=_CLIENT_SECONDS,
        check=False,
    )
    assert told.returncode == 0, told.stderr.decode()
    saw = json.loads(told.stdout.splitlines()[-1])
    return {name: Run(client.name, saw[name], side.upstream.asked) for name, side in sides.items()}


@pytest.fixture(scope="session")
def serve_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """Start servers for all tests."""
    yield from _serving(tmp_path_factory)


@pytest.fixture(scope="session")
def sides(serve_session: ServeProcess) -> Iterator[Sides]:
    """Both sides; Evenflow says often that it is there."""
    with both_sides(serve_session, sse_heartbeat_seconds=SILENCE_SECONDS / 5) as both:
        yield both


@pytest.fixture(scope="session")
def proxied_sides(sides: Sides, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """The same with LiteLLM's proxy in front of each."""
    behind = {name: (side.url, side.model) for name, side in sides.items()}
    with litellm_proxy(tmp_path_factory.mktemp("litellm"), behind) as url:
        yield {name: Side(url, side.upstream, name, PROXY_KEY) for name, side in sides.items()}


@pytest.fixture(scope="session")
def runs(sides: Sides, request: pytest.FixtureRequest) -> Runs:
    """What a client saw; it is run once, for all of its scenarios."""

    @functools.cache
    def running(name: str) -> Future[dict[str, Run]]:
        client, came = CLIENTS[name], Future[dict[str, Run]]()
        try:
            asked = request.getfixturevalue("proxied_sides") if client.proxied else sides
            came.set_result(run_client(client, asked, list(client.scenarios)))
        except (AssertionError, subprocess.TimeoutExpired) as failure:
            came.set_exception(failure)  # once, and each test of this client says so
        return came

    return lambda name: running(name).result()
