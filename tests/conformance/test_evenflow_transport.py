"""AI SDK's own chat with Evenflow's transport: it does not see that connections are lost, and its
`stop` stops the model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.interface_clients import LONG, LONG_TEXT, Saw, bundle, see
from tests.e2e.rough_network import RoughNetwork
from tests.integration.server_process import ROOT, ServerProcess

_CUT_EVERY_SECONDS = 0.25
_ENDLESS = "#demo tokens=4000 gap_ms=30 seed=3"


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The transport as applications load it."""
    built = tmp_path_factory.mktemp("transport") / "ai-sdk.mjs"
    bundle(ROOT / "web" / "src" / "ai-sdk" / "chat-transport.ts", built)
    return built


@pytest.fixture
def network(server: ServerProcess) -> Iterator[RoughNetwork]:
    """A network between the client and the server."""
    with RoughNetwork() as running:
        running.lead_to(server)
        yield running


def _saw(url: str, module: Path, scenario: str, text: str) -> Saw:
    return see("ai_sdk", url, scenario, text, module=str(module))


def _text(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def test_lost_connections_are_not_seen(network: RoughNetwork, module: Path) -> None:
    cuts = 0
    with ThreadPoolExecutor() as running:
        seeing = running.submit(_saw, network.url, module, "send", LONG)
        while not seeing.done():
            time.sleep(_CUT_EVERY_SECONDS)
            cuts += network.cut()
    saw = seeing.result()
    _, answer = saw["messages"]
    assert cuts > 2, "the network was not rough"
    assert (saw["status"], saw["errors"], _text(answer)) == ("ready", [], LONG_TEXT)
    assert [part["type"] for part in answer["parts"]] == ["step-start", "text"]


def test_a_second_tab_reads_the_same(server: ServerProcess, module: Path) -> None:
    saw = _saw(server.http_url, module, "secondTab", LONG)
    assert [_text(saw[tab]["messages"][-1]) for tab in ("one", "other")] == [LONG_TEXT] * 2


async def test_stop_stops_the_model(server: ServerProcess, module: Path) -> None:
    saw = _saw(server.http_url, module, "stopButton", _ENDLESS)
    assert saw["finish"]["isAbort"]
    await server.until_metric("generations_running", 0, 0.5)


async def test_stop_after_a_reload_stops_the_model(server: ServerProcess, module: Path) -> None:
    saw = _saw(server.http_url, module, "resumeAndStop", _ENDLESS)
    assert (saw["status"], saw["before"]["status"]) == ("ready", "ready")
    await server.until_metric("generations_running", 0, 0.5)


def test_a_resume_that_makes_way_for_another_stops_nothing(
    server: ServerProcess, module: Path
) -> None:
    saw = _saw(server.http_url, module, "resumeTwice", LONG)
    assert (_text(saw["messages"][-1]), saw["status"]) == (LONG_TEXT, "ready")


def test_it_reads_what_was_said(server: ServerProcess, module: Path) -> None:
    saw = _saw(server.http_url, module, "readWhileItRuns", LONG)
    assert [message["role"] for message in saw["read"]] == ["user", "assistant"]
    assert saw["messages"] == saw["before"]
