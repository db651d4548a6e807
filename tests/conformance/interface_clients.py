"""Runs the stock clients of chats' interfaces against a server, in Node.js."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.conftest import ServeProcess
from tests.integration.server_process import ServerProcess, clean_environment
from tests.integration.stock_clients.clients import node
from tests.integration.stock_clients.conftest import running_upstream
from tests.integration.stock_clients.script import SILENCE_SECONDS
from tests.integration.stock_clients.upstream import MODEL, ScriptedUpstream

JAVASCRIPT = Path(__file__).parent / "javascript"
_CLIENT_SECONDS = 60

# For so long that a slow machine, too, sees a part of it.
LONG = "#demo tokens=200 gap_ms=30 seed=3"
LONG_TEXT = "".join(demo_tokens(3, 200))
SHORT = "#demo tokens=8 gap_ms=5 seed=4"
SHORT_TEXT = "".join(demo_tokens(4, 8))
FAILS = "#demo tokens=20 gap_ms=5 seed=5 fail_after=10 fail_attempts=9"
FAILS_TEXT = "".join(demo_tokens(5, 10))

Saw = dict[str, Any]


def see(client: str, url: str, scenario: str, text: str, **further: str) -> Saw:
    """What a client saw in one scenario."""
    asked = {"url": url, "scenario": scenario, "text": text, **further}
    ran = subprocess.run(
        [str(node()), str(JAVASCRIPT / f"{client}.mjs"), json.dumps(asked)],
        env=clean_environment({}),
        capture_output=True,
        timeout=_CLIENT_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    saw: Saw = json.loads(ran.stdout.splitlines()[-1])
    return saw


def bundle(source: Path, target: Path, *options: str) -> None:
    """Make one module of a source and all that it imports, by the tool that applications use."""
    subprocess.run(
        [
            str(JAVASCRIPT / "node_modules" / ".bin" / "esbuild"),
            *(str(source), "--bundle", "--format=esm", f"--outfile={target}", *options),
        ],
        capture_output=True,
        timeout=_CLIENT_SECONDS,
        check=True,
    )


@pytest.fixture(scope="module")
def server(serve_module: ServeProcess) -> ServerProcess:
    """A server with the demo model. Its answers stop soon after their readers have left."""
    return serve_module(grace_seconds=2)


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    """The scripted model's server."""
    with running_upstream() as running:
        yield running


@pytest.fixture(scope="module")
def scripted(serve_module: ServeProcess, upstream: ScriptedUpstream) -> ServerProcess:
    """A server in front of the scripted model's server. It says often that it is there."""
    heartbeat = SILENCE_SECONDS / 5
    return serve_module(
        model="openai",
        model_url=upstream.url,
        model_name=MODEL,
        sse_heartbeat_seconds=heartbeat,
        model_repeatable=True,  # an answer that breaks off begins again
    )
