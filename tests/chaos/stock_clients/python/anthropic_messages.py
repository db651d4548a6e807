"""Anthropic's client, which is given everything again."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import anthropic
from asking import Failed, Question, Said, Told, ask
from tools import QUERY

client = anthropic.AsyncAnthropic(base_url=sys.argv[1], api_key="anything", timeout=30)
TOOL = {"name": "look_up", "description": "Looks something up.", "input_schema": QUERY}


async def replay(question: Question, told: Told) -> None:
    told.begin_again()
    async with client.messages.stream(
        model="chaos",
        max_tokens=4_096,
        messages=[{"role": "user", "content": question.text}],
        tools=[TOOL],
        thinking={"type": "enabled", "budget_tokens": 1_024},
        extra_headers={"Idempotency-Key": question.name},
    ) as events:
        stopped = False
        async for event in events:
            take(told.said, event)
            stopped = stopped or event.type == "message_stop"
        if not stopped:
            raise Failed("no end")
        told.whole, told.ended = whole(await events.get_final_message()), True


def take(said: Said, event: Any) -> None:
    if event.type == "thinking":
        said.reasoning += event.thinking
    elif event.type == "text":
        said.text += event.text
    elif event.type == "input_json":
        said.arguments += event.partial_json
    elif event.type == "content_block_start" and event.content_block.type == "tool_use":
        said.call_id += event.content_block.id
        said.tool += event.content_block.name


def whole(message: Any) -> Said:
    said = Said()
    for block in message.content:
        if block.type == "thinking":
            said.reasoning += block.thinking
        elif block.type == "text":
            said.text += block.text
        elif block.type == "tool_use":
            said.call_id, said.tool, said.arguments = block.id, block.name, block.input
    return said


def code_of(error: Exception) -> str:
    if isinstance(error, Failed):
        return str(error)
    if isinstance(error, anthropic.APIStatusError):
        body = error.body
        told = body.get("error", {}) if isinstance(body, dict) else {}
        return told.get("code") or told.get("type") or f"load balancer {error.status_code}"
    return type(error).__name__


if __name__ == "__main__":
    asyncio.run(ask({"replay": replay}, code_of))
