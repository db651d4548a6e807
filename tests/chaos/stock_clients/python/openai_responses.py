"""OpenAI's client for the Responses API, which goes on after the last event that it has."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import openai
from asking import Failed, Question, Said, Told, ask
from chat_completions import code_of
from tools import TOOLS

client = openai.AsyncOpenAI(base_url=f"{sys.argv[1]}/v1", api_key="anything", timeout=30)


async def starting_after(question: Question, told: Told) -> None:
    await go_on(question, told, background=False)


async def background(question: Question, told: Told) -> None:
    await go_on(question, told, background=True)


async def go_on(question: Question, told: Told, *, background: bool) -> None:
    if told.cursor is None:
        events = await client.responses.create(
            model="chaos",
            input=question.text,
            tools=[{"type": "function", "strict": False, **TOOLS[0]["function"]}],
            stream=True,
            background=background,
            extra_headers={"Idempotency-Key": question.name},
        )
    else:
        response_id, number = told.cursor
        events = await resumed(told, response_id, number)
    async for event in events:
        take(told, event)
    if not told.ended:
        raise Failed("no end")


async def resumed(told: Told, response_id: str, number: int) -> Any:
    try:
        return await client.responses.retrieve(response_id, stream=True, starting_after=number)
    except openai.APIStatusError as error:
        if error.code == "response_restarted":
            told.begin_again()
        raise


def take(told: Told, event: Any) -> None:
    said = told.said
    if event.type == "response.created":
        told.cursor = (event.response.id, event.sequence_number)
    elif event.type == "response.reasoning_summary_text.delta":
        said.reasoning += event.delta
    elif event.type == "response.output_text.delta":
        said.text += event.delta
    elif event.type == "response.function_call_arguments.delta":
        said.arguments += event.delta
    elif event.type == "response.output_item.added" and event.item.type == "function_call":
        said.call_id += event.item.call_id
        said.tool += event.item.name
    elif event.type == "response.completed":
        told.whole, told.ended = whole(event.response), True
    elif event.type in ("response.failed", "error"):
        failed(event)
    told.cursor = (told.cursor[0], event.sequence_number)


def failed(event: Any) -> None:
    if event.type == "error":
        raise Failed(event.code or "error")
    raise Failed(event.response.error.code)


def whole(response: Any) -> Said:
    said = Said()
    for item in response.output:
        if item.type == "reasoning":
            said.reasoning += "".join(part.text for part in item.summary)
        elif item.type == "message":
            said.text += "".join(part.text for part in item.content)
        elif item.type == "function_call":
            said.call_id += item.call_id
            said.tool += item.name
            said.arguments += item.arguments
    return said


if __name__ == "__main__":
    asyncio.run(ask({"starting_after": starting_after, "background": background}, code_of))
