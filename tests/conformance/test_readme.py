"""Each line of the README's table of clients: in a program of that client's, it gets an answer."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.server_process import ROOT, ServerProcess
from tests.integration.stock_clients.clients import node, python_of

_LOCAL = "http://127.0.0.1:8080"
_ROW = re.compile(
    r"^\| (?P<client>[^|]+) \| `(?P<line>[^|]*127\.0\.0\.1:8080[^|]*)` \|$", re.MULTILINE
)
_LINES = dict(_ROW.findall((ROOT / "README.md").read_text()))
_JAVASCRIPT = Path(__file__).parent / "javascript"
_QUESTION = "#demo tokens=20 gap_ms=1 seed=5"
_TEXT = "".join(demo_tokens(5, 20))


@dataclass(frozen=True)
class Program:
    """What people write around the line of the README. It prints the answer."""

    before: str
    after: str
    python: bool = False


def _python(before: str, after: str) -> Program:
    return Program(before, after, python=True)


_PROGRAMS = {
    "`openai`, Python": _python(
        "from openai import OpenAI",
        'print(client.responses.create(model="demo", input=QUESTION).output_text)',
    ),
    "`openai`, JavaScript": Program(
        'import OpenAI from "openai"',
        'const said = await client.responses.create({ model: "demo", input: QUESTION })\n'
        "console.log(said.output_text)",
    ),
    "OpenAI Agents SDK": _python(
        "from agents import Agent, Runner, set_default_openai_client, set_tracing_disabled\n"
        "from openai import AsyncOpenAI\n"
        "set_tracing_disabled(True)",
        'print(Runner.run_sync(Agent("Reader", model="demo"), QUESTION).final_output)',
    ),
    "pydantic-ai": _python(
        "from pydantic_ai import Agent\n"
        "from pydantic_ai.models.openai import OpenAIResponsesModel\n"
        "from pydantic_ai.providers.openai import OpenAIProvider",
        'print(Agent(OpenAIResponsesModel("demo", provider=provider)).run_sync(QUESTION).output)',
    ),
    "AI SDK, models": Program(
        'import { createOpenAI } from "@ai-sdk/openai"\nimport { generateText } from "ai"',
        'const { text } = await generateText({ model: openai("demo"), prompt: QUESTION })\n'
        "console.log(text)",
    ),
    "AI SDK, `useChat`": Program(
        'import { AbstractChat, DefaultChatTransport } from "ai"',
        "const state = {\n"
        '  status: "ready", error: undefined, messages: [], snapshot: structuredClone,\n'
        "  pushMessage(said) { this.messages.push(said) },\n"
        "  popMessage() { this.messages.pop() },\n"
        "  replaceMessage(place, said) { this.messages[place] = said },\n"
        "}\n"
        "class Chat extends AbstractChat {}\n"
        "await new Chat({ state, transport }).sendMessage({ text: QUESTION })\n"
        "const said = state.messages.at(-1).parts\n"
        'console.log(said.map((part) => (part.type === "text" ? part.text : "")).join(""))',
    ),
    "AG-UI": Program(
        'import { HttpAgent } from "@ag-ui/client"',
        'agent.addMessage({ id: "m1", role: "user", content: QUESTION })\n'
        "const { newMessages } = await agent.runAgent()\n"
        'console.log(newMessages.map((said) => said.content ?? "").join(""))',
    ),
    "`anthropic`, Python": _python(
        "from anthropic import Anthropic",
        'question = [{"role": "user", "content": QUESTION}]\n'
        'said = client.messages.create(model="demo", max_tokens=1000, messages=question)\n'
        'print("".join(block.text for block in said.content))',
    ),
    "`@anthropic-ai/sdk`": Program(
        'import Anthropic from "@anthropic-ai/sdk"',
        'const messages = [{ role: "user", content: QUESTION }]\n'
        'const said = await client.messages.create({ model: "demo", max_tokens: 1000, messages })\n'
        'console.log(said.content.map((block) => block.text).join(""))',
    ),
    "Durable Streams": Program(
        'import { stream } from "@durable-streams/client"\nconst { responseId, token } = ASKED',
        "const headers = { Authorization: `Bearer ${token}` }\n"
        'const read = await stream({ url, headers, offset: "-1" })\n'
        "const frames = await read.json()\n"
        'console.log(frames.map((frame) => frame.delta ?? "").join(""))',
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path_factory.mktemp("readme") / "handler.log", {})
    try:
        yield server.wait_until_serving()
    finally:
        server.stop()


def test_every_line_has_its_program() -> None:
    assert set(_LINES) == set(_PROGRAMS)


@pytest.mark.parametrize("client", list(_PROGRAMS))
def test_the_line_is_all_that_a_client_needs(client: str, server: ServerProcess) -> None:
    program = _PROGRAMS[client]
    line = _LINES[client].replace(_LOCAL, server.http_url)
    asked = _asked(server) if "ASKED" in program.before else {}
    before = program.before.replace("ASKED", json.dumps(asked))
    code = "\n".join((before, line, program.after)).replace("QUESTION", json.dumps(_QUESTION))
    command = [str(python_of("clients")), "-c", code]
    if not program.python:
        command = [str(node()), "--input-type=module", "-e", code]
    ran = subprocess.run(
        command, cwd=_JAVASCRIPT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.removesuffix("\n") == _TEXT


def _asked(server: ServerProcess) -> dict[str, str]:
    """Ask in a session of Evenflow's own API; returns what a reader needs."""
    session = _post(f"{server.http_url}/session", {})
    message = {"message_id": "m1", "previous_message_id": None, "payload": {"text": _QUESTION}}
    said = _post(f"{server.http_url}/chat/message", message, session["token"])
    return {"responseId": said["response_id"], "token": session["token"]}


def _post(url: str, body: object, token: str = "") -> dict[str, str]:
    headers = {"Content-Type": "application/json"} | (
        {"Authorization": f"Bearer {token}"} if token else {}
    )
    request = Request(url, json.dumps(body).encode(), headers)
    with urlopen(request, timeout=10) as answer:
        told: dict[str, str] = json.load(answer)
    return told
