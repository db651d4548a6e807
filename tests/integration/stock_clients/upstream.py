"""An OpenAI-compatible model server with a script: a user's turn names the answer, as in
`text for openai.stream`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.integration.stock_clients.script import SCRIPT, Answer, Refused

MODEL = "scripted-model"

_ASKED = re.compile(r"([\w-]+) for ([\w.-]+)")
# The source always streams, and says so; the rest of a request is the client's.
_OF_THE_TRANSPORT = ("stream", "stream_options")
# What a model's server reads of a message. Others are ignored; an empty one says what none says.
_READ = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "reasoning_content",
    "cache_control",
)

Body = dict[str, Any]


class ScriptedUpstream:
    """Serves the script. `asked`: the bodies that came, by who asked (`openai.stream`)."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: dict[str, list[Body]] = defaultdict(list)

    async def models(self, _request: web.Request) -> web.Response:
        """`GET /v1/models`."""
        return web.json_response(
            {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1}]}
        )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/chat/completions`."""
        body = await request.json()
        name, asking = _first_question(body)
        self.asked[asking].append(_as_read(body))
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        steps = SCRIPT[name]
        step = steps[min(max(turn, len(self.asked[asking]) - 1), len(steps) - 1)]
        if isinstance(step, Refused) and len(body["messages"]) <= step.above:
            step = Answer()
        if isinstance(step, Refused):
            return web.json_response(
                {"error": step.error()}, status=step.status, headers=step.headers
            )
        given = step.to(body)
        if not body.get("stream"):
            await asyncio.sleep(given.before + given.within)
            return web.json_response(whole(given, body))
        return await self._stream(given, body, request)

    async def _stream(self, answer: Answer, body: Body, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(answer.before)
        for number, chunk in enumerate(chunks(answer, body)):
            if number == 2:
                await asyncio.sleep(answer.within)
            if answer.breaks and chunk["choices"][0]["finish_reason"]:
                _break(request)
                return response
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response


def _break(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


def _as_read(body: Body) -> Body:
    messages = [
        {key: message[key] for key in _READ if message.get(key)} for message in body["messages"]
    ]
    return {key: body[key] for key in body if key not in _OF_THE_TRANSPORT} | {"messages": messages}


def _first_question(body: Body) -> tuple[str, str]:
    """The name of the answer, and who asks for it. Some clients say more of their own before."""
    said = (_text(message) for message in body["messages"] if message["role"] == "user")
    questions = (found.groups() for text in said for found in _ASKED.finditer(text))
    return next((name, asking) for name, asking in questions if name in SCRIPT)


def _text(message: Body) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def whole(answer: Answer, body: Body) -> Body:
    """The answer in one piece."""
    text = "".join(answer.text)
    message: Body = {
        "role": "assistant",
        "content": text or None,
        "refusal": "".join(answer.refusal) or None,
    }
    if answer.reasoning:
        message["reasoning_content"] = "".join(answer.reasoning)
    if answer.calls:
        message["tool_calls"] = [call.whole() for call in answer.calls]
    choice = {
        "message": message,
        "finish_reason": answer.finish_reason,
        "logprobs": answer.told_logprobs(body),
    }
    choices = [choice | {"index": index} for index in range(body.get("n") or 1)]
    return _envelope("chat.completion") | {"choices": choices, "usage": answer.usage}


def chunks(answer: Answer, body: Body) -> Iterator[Body]:
    """The answer in pieces."""
    for index in range(body.get("n") or 1):
        yield _chunk({"role": "assistant", "content": "" if answer.text else None}, index)
        for piece in answer.reasoning:
            yield _chunk({"reasoning_content": piece}, index)
        for piece in answer.text:
            yield _chunk({"content": piece}, index, logprobs=answer.told_logprobs(body, piece))
        for piece in answer.refusal:
            yield _chunk({"refusal": piece}, index)
        for position, call in enumerate(answer.calls):
            for part in call.pieces():
                yield _chunk({"tool_calls": [{"index": position} | part]}, index)
        yield _chunk({}, index, finish_reason=answer.finish_reason)
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _envelope("chat.completion.chunk") | {"choices": [], "usage": answer.usage}


def _chunk(delta: Body, index: int, **choice: object) -> Body:
    choices = [{"index": index, "delta": delta, "logprobs": None, "finish_reason": None} | choice]
    return _envelope("chat.completion.chunk") | {"choices": choices}


def _envelope(kind: str) -> Body:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 1_700_000_000, "model": MODEL}


@asynccontextmanager
async def scripted_upstream() -> AsyncIterator[ScriptedUpstream]:
    """Serve one on a free port."""
    upstream = ScriptedUpstream()
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.add_routes(
        [web.get("/v1/models", upstream.models), web.post("/v1/chat/completions", upstream.answer)]
    )
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    upstream.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield upstream
    finally:
        await runner.cleanup()
