"""A server whose model has a script, and clients that are run against it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import _serving
from tests.integration.server_process import clean_environment
from tests.integration.stock_clients.clients import QUIET, node, python_of
from tests.integration.stock_clients.conftest import running_upstream
from tests.integration.stock_clients.script import SILENCE_SECONDS
from tests.integration.stock_clients.upstream import MODEL, ScriptedUpstream

_FOLDER = Path(__file__).parent
_CLIENT_SECONDS = 110


@dataclass(frozen=True)
class ScriptedServer:
    """A server, and the model's server behind it."""

    url: str
    upstream: ScriptedUpstream

    def saw(
        self, client: str, file: str, scenarios: list[str], group: str = "clients"
    ) -> dict[str, Any]:
        """What a client saw, by scenario. `group` is the environment of one in Python."""
        interpreter = node() if file.endswith(".mjs") else python_of(group)
        folder = "javascript" if file.endswith(".mjs") else "python"
        told = {"client": client, "url": self.url, "model": MODEL, "scenarios": scenarios}
        ran = subprocess.run(
            [os.fspath(interpreter), os.fspath(_FOLDER / folder / file), json.dumps(told)],
            env=clean_environment(QUIET),
            capture_output=True,
            timeout=_CLIENT_SECONDS,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr.decode()
        saw: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return saw


@contextmanager
def scripted_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    """Start one, with the model's server behind it."""
    serving = _serving(tmp_path_factory)
    with running_upstream() as upstream:
        server = next(serving)(
            model="openai",
            model_url=upstream.url,
            model_name=MODEL,
            sse_heartbeat_seconds=SILENCE_SECONDS / 5,
        )
        yield ScriptedServer(f"{server.http_url}/v1", upstream)
        next(serving, None)
