"""The stock OpenAI client for JavaScript, in one process for all tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.answer import Frame
from tests.integration.chat_client import call
from tests.integration.server_process import Server

_FOLDER = Path(__file__).parent / "javascript"


@contextmanager
def javascript_process() -> Iterator[str]:
    """Run `javascript/ask.mjs` with the packages of its lock file; gives its URL."""
    if shutil.which("npm") is None:
        pytest.fail("these tests need Node.js 20 or newer with npm; nothing was tested")
    if not (_FOLDER / "node_modules" / "openai").is_dir():
        command = ["npm", "ci", "--silent", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=_FOLDER, check=True, timeout=110)
    # It ends with its standard input, which is closed behind the block.
    with subprocess.Popen(
        ["node", "ask.mjs"], cwd=_FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "ask.mjs ended at its start; what it wrote says why"
        yield f"http://127.0.0.1:{port}"


class JavaScriptClient:
    """Has it ask a server.

    Args:
        url: of the process.
    """

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http, self._url = http, url

    async def ask(
        self, server: Server, action: str, body: Frame, key: str = "sk-anything", **options: Any
    ) -> Frame:
        """What came of an action of `ask.mjs`."""
        asked = {
            "baseURL": f"{server.http_url}/v1",
            "apiKey": key,
            "action": action,
            "body": body,
            "options": options,
        }
        return (await call(self._http, "POST", self._url, asked)).json
