"""Codex' command line, as it comes from its registry and with its defaults."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.scripted_server import ScriptedServer, scripted_server
from tests.integration.server_process import clean_environment
from tests.integration.stock_clients.clients import node
from tests.integration.stock_clients.upstream import MODEL

_CODEX = Path(__file__).parent / "codex" / "node_modules" / "@openai" / "codex" / "bin" / "codex.js"
pytestmark = pytest.mark.skipif(not _CODEX.exists(), reason="`make test-codex` installs Codex")

_SECONDS = 100
_KEY = "CODEX_TEST_KEY"
_CONFIG = """
model = "{model}"
model_provider = "evenflow"

[model_providers.evenflow]
name = "Evenflow"
base_url = "{url}"
wire_api = "responses"
env_key = "{key}"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    with scripted_server(tmp_path_factory) as started:
        yield started


def _run(server: ScriptedServer, folder: Path, question: str) -> list[dict[str, Any]]:
    """The items of a run: what it said, called, and was told of errors."""
    config = _CONFIG.format(model=MODEL, url=server.url, key=_KEY)
    (folder / "config.toml").write_text(config)
    ran = subprocess.run(
        [
            *(str(node()), str(_CODEX), "exec", "--json", "--skip-git-repo-check"),
            *("--sandbox", "read-only", question),
        ],
        env=clean_environment({"CODEX_HOME": str(folder), _KEY: "sk-anything"}),
        stdin=subprocess.DEVNULL,
        cwd=folder,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.returncode == 0, json.dumps(events) + ran.stderr.decode()
    return [event["item"] for event in events if event["type"] == "item.completed"]


def test_it_is_answered(server: ScriptedServer, tmp_path: Path) -> None:
    *_, said = _run(server, tmp_path, "text for codex-cli.text")
    assert said["text"] == "A train enters a tunnel: Zug 🚆, поезд."


def test_it_goes_on_behind_a_call(server: ScriptedServer, tmp_path: Path) -> None:
    *_, said = _run(server, tmp_path, "first-tool for codex-cli.call")
    assert said["text"] == "Sunny in Zürich."
    _, second = server.upstream.asked["codex-cli.call"]
    assert [message["role"] for message in second["messages"]][-2:] == ["assistant", "tool"]
