"""OpenAI's client, which is given everything again, and httpx-sse, which has ids of events."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
import openai
from asking import Failed, Question, Said, Told, ask
from httpx_sse import aconnect_sse
from tools import TOOLS

URL = f"{sys.argv[1]}/v1"
_UNLIMITED = httpx.Limits(max_connections=None)
_TIMEOUT = httpx.Timeout(30)

client = openai.AsyncOpenAI(base_url=URL, api_key="anything", timeout=30)
http = httpx.AsyncClient(timeout=_TIMEOUT, limits=_UNLIMITED)


def asked(question: Question) -> dict[str, Any]:
    return {
        "model": "chaos",
        "messages": [{"role": "user", "content": question.text}],
        "tools": TOOLS,
        "stream": True,
    }


async def replay(question: Question, told: Told) -> None:
    told.begin_again()
    key = {"Idempotency-Key": question.name}
    finished = False
    async for chunk in await client.chat.completions.create(**asked(question), extra_headers=key):
        for choice in chunk.choices:
            take(told.said, choice.delta.model_dump(exclude_unset=True))
            finished = finished or choice.finish_reason is not None
    if not finished:
        raise Failed("no end")
    told.ended = True


async def last_event_id(question: Question, told: Told) -> None:
    headers = {"Idempotency-Key": question.name}
    if told.cursor is not None:
        headers["Last-Event-ID"] = told.cursor
    async with aconnect_sse(
        http, "POST", f"{URL}/chat/completions", json=asked(question), headers=headers
    ) as events:
        if events.response.status_code != 200:
            await events.response.aread()
            refused(told, events.response)
        async for event in events.aiter_sse():
            if event.data == "[DONE]":
                told.ended = True
                return
            chunk = json.loads(event.data)
            if "error" in chunk:
                raise Failed(chunk["error"]["code"])
            told.cursor = event.id or told.cursor
            for choice in chunk["choices"]:
                take(told.said, choice["delta"])
    raise Failed("no end")


def refused(told: Told, response: httpx.Response) -> None:
    try:
        code = response.json()["error"]["code"]
    except ValueError:
        code = f"load balancer {response.status_code}"
    if code == "response_restarted":
        told.begin_again()
    raise Failed(code)


def take(said: Said, delta: dict[str, Any]) -> None:
    said.reasoning += delta.get("reasoning_content") or ""
    said.text += delta.get("content") or ""
    for call in delta.get("tool_calls") or ():
        said.call_id += call.get("id") or ""
        said.tool += call["function"].get("name") or ""
        said.arguments += call["function"].get("arguments") or ""


def code_of(error: Exception) -> str:
    if isinstance(error, Failed):
        return str(error)
    if isinstance(error, openai.APIStatusError):
        return error.code or f"load balancer {error.status_code}"
    if isinstance(error, openai.APIError) and error.code:
        return error.code
    return type(error).__name__


if __name__ == "__main__":
    asyncio.run(ask({"replay": replay, "Last-Event-ID": last_event_id}, code_of))
