"""A pydantic-ai agent behind Evenflow: readers see its thoughts, its tool's calls and results.

    pip install fastapi uvicorn "pydantic-ai-slim[openai]"
    PYDANTIC_AI_MODEL=openai:gpt-5 python -m uvicorn examples.pydantic_ai_backend:app

Without PYDANTIC_AI_MODEL pydantic-ai's test model answers, which calls the tool and quotes it.
"""

import json
import os
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from pydantic_ai import Agent
from pydantic_ai import messages as ai

agent = Agent(os.environ.get("PYDANTIC_AI_MODEL", "test"), instructions="You sell bicycles.")
app = FastAPI()


@agent.tool_plain
def in_stock(item: str) -> dict[str, int]:
    """How many of an item the shop has."""
    return {"left": {"city bikes": 7, "mountain bikes": 2}.get(item, 0)}


def delta_of(event: Any) -> dict[str, Any]:
    match event:
        case (
            ai.PartStartEvent(part=ai.TextPart(content=text))
            | ai.PartDeltaEvent(delta=ai.TextPartDelta(content_delta=text))
        ):
            return {"content": text}
        case (
            ai.PartStartEvent(part=ai.ThinkingPart(content=text))
            | ai.PartDeltaEvent(delta=ai.ThinkingPartDelta(content_delta=text))
        ):
            return {"reasoning_content": text}
        case ai.FunctionToolCallEvent(part=call):
            called = {"name": call.tool_name, "arguments": call.args_as_json_str()}
            return {"tool_calls": [{"id": call.tool_call_id, "function": called}]}
        case ai.FunctionToolResultEvent(part=part):
            gave = part.model_response_str()
            return {"role": "tool", "tool_call_id": part.tool_call_id, "content": gave}
    return {}


def chunk(delta: dict[str, Any], reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return f"data: {json.dumps({'choices': [choice]})}\n\n"


@app.post("/v1/chat/completions")
async def answer(request: Request) -> StreamingResponse:
    *before, question = (await request.json())["messages"]
    history: list[ai.ModelMessage] = [
        ai.ModelResponse([ai.TextPart(turn["content"])])
        if turn["role"] == "assistant"
        else ai.ModelRequest([ai.UserPromptPart(turn["content"])])
        for turn in before
    ]

    async def chunks() -> AsyncIterator[str]:
        async with agent.run_stream_events(question["content"], message_history=history) as events:
            async for event in events:
                yield chunk(delta_of(event))
        yield chunk({}, "stop") + "data: [DONE]\n\n"

    return StreamingResponse(chunks(), media_type="text/event-stream")
