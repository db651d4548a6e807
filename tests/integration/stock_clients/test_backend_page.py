"""The code of `docs/backend.md`, run with the framework that it is for."""

from __future__ import annotations

import re
import subprocess
from textwrap import indent

from evenflow.fargate_handler.token_sources.openai_answer import OpenAIAnswer
from evenflow.fargate_handler.token_sources.openai_failures import Failures
from evenflow.stream_core.log.entries import Part, PartKind
from tests.integration.scripted_model import chunk
from tests.integration.server_process import ROOT
from tests.integration.stock_clients.clients import python_of
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = """
import asyncio, json
from langchain_core.messages import AIMessageChunk, ToolMessage

def call(args, name=None, call_id=None):
    part = {{"name": name, "args": args, "id": call_id, "index": 0}}
    return AIMessageChunk("", tool_call_chunks=[part])

class Graph:
    async def astream(self, given, stream_mode):
        assert (given, stream_mode) == ({{"messages": []}}, "messages")
        for message in (
            AIMessageChunk("I look. "), call("", "stock", "c1"), call("{{}}"),
            ToolMessage("7", tool_call_id="c1"), call("{{}}", "price", "c2"),
            ToolMessage("90", tool_call_id="c2"), AIMessageChunk("Seven."),
        ):
            yield message, {{}}

async def lines(graph, messages):
{block}

async def main():
    async for line in lines(Graph(), []):
        print(line, end="")

asyncio.run(main())
"""


def _call(number: int, call_id: str, name: str, result: str) -> list[Part]:
    return [
        Part(PartKind.CALL, call=number, id=call_id, name=name),
        Part(PartKind.ARGUMENTS, "{}", call=number),
        Part(PartKind.CALL_END, call=number),
        Part(PartKind.RESULT, result, id=call_id, name=name),
    ]


def test_a_langgraph_graph_is_told_with_its_calls_and_results() -> None:
    (block,) = _BLOCK.findall((ROOT / "docs" / "backend.md").read_text("utf-8"))
    program = _PROGRAM.format(block=indent(block, "    "))
    ran = subprocess.run(
        [str(python_of("clients")), "-c", program], capture_output=True, text=True, check=True
    )
    sink = RecordingSink()
    answer = OpenAIAnswer(sink, Failures())
    for line in [*ran.stdout.splitlines(), chunk(finish_reason="stop").decode().strip()]:
        if line:
            answer.take(line.removeprefix("data: ").encode())
    answer.finish()
    assert sink.answer == [
        "I look. ",
        *_call(0, "c1", "stock", "7"),
        *_call(1, "c2", "price", "90"),
        "Seven.",
    ]
