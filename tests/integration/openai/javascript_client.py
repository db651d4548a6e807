"""Runs the stock OpenAI client for JavaScript, a process a call."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import pytest

from tests.integration.answer import Frame
from tests.integration.server_process import ServerProcess

_FOLDER = Path(__file__).parent / "javascript"


class JavaScriptClient:
    """See `javascript/ask.mjs` for what it can be told to do."""

    @classmethod
    def installed(cls) -> Self:
        """With the packages of its lock file."""
        if shutil.which("npm") is None:
            pytest.fail("these tests need Node.js 20 or newer with npm; nothing was tested")
        if not (_FOLDER / "node_modules" / "openai").is_dir():
            command = ["npm", "ci", "--silent", "--no-audit", "--no-fund"]
            subprocess.run(command, cwd=_FOLDER, check=True, timeout=110)
        return cls()

    async def ask(
        self,
        server: ServerProcess,
        action: str,
        body: Frame,
        key: str = "sk-anything",
        meanwhile: Callable[[], Awaitable[Any]] | None = None,
        **options: Any,
    ) -> Frame:
        """What it printed; `meanwhile` is awaited before its process ends."""
        call = {"baseURL": f"{server.http_url}/v1", "apiKey": key, "action": action, "body": body, "options": options}
        process = await asyncio.create_subprocess_exec(
            "node",
            "ask.mjs",
            json.dumps(call),
            cwd=_FOLDER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), 20)
            if meanwhile is not None:
                await meanwhile()
        finally:
            process.stdin.close()
            await asyncio.wait_for(process.wait(), 10)
        told: Frame = json.loads(line)
        return told
