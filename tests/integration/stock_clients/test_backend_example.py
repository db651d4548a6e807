"""The backend of the example, run by FastAPI behind a handler: it is told for whom it answers."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession

from tests.integration.chat_client import call
from tests.integration.conftest import OpenSession, ServeProcess
from tests.integration.server_process import ROOT, free_port

_PYTHON = ROOT / ".build" / "clients" / "bin" / "python"


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    with (tmp_path / "backend.log").open("wb") as log:
        command = [str(_PYTHON), "-m", "uvicorn", "examples.backend:app", "--port", str(port)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(20)


async def _until_it_serves(http: ClientSession, url: str) -> None:
    for _ in range(400):
        try:
            await call(http, "GET", f"{url}/docs")
        except ClientError:
            await asyncio.sleep(0.05)
        else:
            return
    raise AssertionError("the backend did not start")


async def test_it_answers_a_user_about_the_page_that_the_application_names(
    http: ClientSession, serve_process: ServeProcess, opened: OpenSession, backend: str
) -> None:
    await _until_it_serves(http, backend)
    session = await opened(serve_process(model="openai", model_url=f"{backend}/v1"), user="Zoe")
    payload = {"text": "What is this?", "metadata": {"page": "7"}}
    posted = await session.call("POST", "/chat/message", {"message_id": "m1", "payload": payload})
    _, text, _ = await session.poll_whole(posted.json["response_id"])
    assert text == "Zoe, on page 7 you asked: What is this?"
