"""`curl -N`, as everybody tries an API first."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import demo
from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import Streamed, asking
from tests.integration.server_process import Server


async def _curl(server: Server, *options: str, **body: Any) -> asyncio.subprocess.Process:
    curl = shutil.which("curl")
    if curl is None:
        pytest.fail("this test needs curl; nothing was tested")
    url = f"{server.http_url}/v1/chat/completions"
    arguments = [
        "-sN",
        "--noproxy",
        "*",
        *options,
        url,
        "-H",
        "Content-Type: application/json",
        "-d",
        json.dumps(body),
    ]
    return await asyncio.create_subprocess_exec(curl, *arguments, stdout=asyncio.subprocess.PIPE)


async def test_a_stream(shared_server: LocalServer) -> None:
    process = await _curl(shared_server, **asking(demo(tokens=30, gap_ms=2, seed=5), stream=True))
    output, _ = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0
    streamed = Streamed()
    for event in output.decode().removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in event.splitlines())
        streamed.take(fields["data"], fields.get("id", ""))
    assert (streamed.text, streamed.finish_reason) == ("".join(demo_tokens(5, 30)), "stop")
    assert output.endswith(b"data: [DONE]\n\n")


async def test_the_tokens_come_while_they_are_generated(shared_server: LocalServer) -> None:
    process = await _curl(shared_server, **asking(demo(tokens=5000, gap_ms=20), stream=True))
    assert process.stdout is not None
    running = shared_server.until_metric("generations_running", 1, at_least=True)
    for _ in range(12):
        await asyncio.wait_for(process.stdout.readline(), 20)
    await running
    process.kill()
    await process.wait()
    await shared_server.until_metric(
        "generations_running", 0
    )  # long before the grace period is over


async def test_an_error(shared_server: LocalServer) -> None:
    process = await _curl(shared_server, "-w", "%{http_code}", **asking("x", model="gpt-x"))
    output, _ = await asyncio.wait_for(process.communicate(), 20)
    assert output.endswith(b"404")
    assert json.loads(output[:-3])["error"]["code"] == "model_not_found"
