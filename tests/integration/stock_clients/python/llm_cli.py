"""`llm` on the command line, with a model of its configuration file."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from side_by_side import Server, run
from tools import PIXEL

_TOOL = (
    'def get_weather(city: str) -> str:\n    "The weather in a city."\n    return "sunny, 21 °C"'
)


async def llm(server: Server, *arguments: str, home: str) -> str:
    """What the command prints."""
    able = {"supports_schema": True, "supports_tools": True, "vision": True}
    model = {
        "model_id": "stock",
        "model_name": server.model,
        "api_base": server.url,
        "api_key_name": "stock",
        **able,
    }
    Path(home, "extra-openai-models.yaml").write_text(json.dumps([model]))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "llm", *arguments),
        env=os.environ | {"LLM_USER_PATH": home, "LLM_MODEL": "stock"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, complained = await process.communicate()
    if process.returncode:
        raise RuntimeError(complained.decode())
    return printed.decode()


async def prompted(server: Server, script: str, *options: str) -> str:
    with tempfile.TemporaryDirectory() as home:
        return await llm(
            server, "prompt", "--key", server.key, server.question(script), *options, home=home
        )


async def stream(server: Server) -> Any:
    return await prompted(server, "text")


async def whole(server: Server) -> Any:
    return await prompted(server, "text", "--no-stream")


async def schema(server: Server) -> Any:
    return json.loads(await prompted(server, "person", "--schema", "name, age int"))


async def tools(server: Server) -> Any:
    return await prompted(server, "weather", "--functions", _TOOL)


async def attachment(server: Server) -> Any:
    with tempfile.NamedTemporaryFile(suffix=".png") as picture:
        Path(picture.name).write_bytes(base64.b64decode(PIXEL.split(",")[1]))
        return await prompted(server, "text", "-a", picture.name)


async def continued(server: Server) -> Any:
    with tempfile.TemporaryDirectory() as home:
        first = await llm(
            server, "prompt", "--key", server.key, server.question("turns"), home=home
        )
        return [
            first,
            await llm(server, "prompt", "--key", server.key, "--continue", "And then?", home=home),
        ]


async def silence_within(server: Server) -> Any:
    return await prompted(server, "silence-within")


if __name__ == "__main__":
    run(globals())
