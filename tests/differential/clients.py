"""The clients: OpenAI's for Python in this process, the others in processes of their own."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx2
from openai import OpenAI, Stream
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from tests.differential.reading import Reading, read_chunks

_ROOT = Path(__file__).resolve().parents[2]
_LITELLM = _ROOT / ".build" / "litellm" / "bin" / "python"
_JAVASCRIPT = _ROOT / "tests" / "integration" / "openai" / "javascript"


class Client(Protocol):
    """Reads the body of an answer of an OpenAI-compatible server."""

    name: str

    def read(self, body: bytes) -> Reading:
        """What the client makes of it."""


class PythonClient:
    """OpenAI's client for Python, with its own accumulation."""

    name = "openai-python"

    def __init__(self) -> None:
        self._openai = OpenAI(api_key="sk-none", base_url="http://127.0.0.1:9/v1", max_retries=0)

    def read(self, body: bytes) -> Reading:
        """What it makes of a body."""
        reading = read_chunks(self._chunks(body))
        reading.accumulated = self._accumulated(body)
        return reading

    def _chunks(self, body: bytes) -> Stream[ChatCompletionChunk]:
        response = httpx2.Response(
            200,
            headers={"content-type": "text/event-stream"},
            content=body,
            request=httpx2.Request("POST", "http://127.0.0.1:9/v1/chat/completions"),
        )
        return Stream(cast_to=ChatCompletionChunk, response=response, client=self._openai)

    def _accumulated(self, body: bytes) -> list[str] | None:
        with warnings.catch_warnings():  # of fields of another type
            warnings.simplefilter("ignore")
            return self._added_up(body)

    def _added_up(self, body: bytes) -> list[str] | None:
        state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
        try:
            for chunk in self._chunks(body):
                state.handle_chunk(chunk)
            message = state.current_completion_snapshot.choices[0].message
            calls: list[Any] = [call.to_dict() for call in message.tool_calls or ()]
            arguments = [str(call["function"]["arguments"] or "") for call in calls]
        except Exception:  # it is strict: what it can't read says nothing
            return None
        return [message.content or "", *arguments]


class ClientProcess:
    """A client in a process that reads bodies from its standard input, one a line."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name = name
        self._process = process

    def read(self, body: bytes) -> Reading:
        """What it makes of a body."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(base64.b64encode(body).decode() + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{self.name} ended; what it wrote says why"
        return Reading(**json.loads(line))


@contextmanager
def _process(name: str, command: list[str], folder: Path) -> Iterator[ClientProcess]:
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": os.fspath(_ROOT)}
    # It ends with its standard input, which is closed behind the block.
    with subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | quiet,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield ClientProcess(name, process)


@contextmanager
def javascript_client() -> Iterator[ClientProcess]:
    """OpenAI's client for JavaScript. It needs its packages: `make test` installs them."""
    node = shutil.which("node")
    assert node is not None, "this needs Node.js 20 or newer"
    assert (_JAVASCRIPT / "node_modules" / "openai").is_dir(), f"npm ci in {_JAVASCRIPT} first"
    with _process("openai-node", [node, "read.mjs"], _JAVASCRIPT) as client:
        yield client


@contextmanager
def litellm_client() -> Iterator[ClientProcess]:
    """LiteLLM's reader. It needs its environment: `make test-clients` installs it."""
    assert _LITELLM.is_file(), "make .build/litellm/.installed first"
    command = [os.fspath(_LITELLM), "-W", "ignore", "tests/differential/python/litellm_reader.py"]
    with _process("litellm", command, _ROOT) as client:
        yield client
