"""Reads one plan's answer over each protocol, from chance places on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import aiohttp

from evenflow.stream_core.log.entries import text_of
from evenflow.stream_core.protocols.anthropic.encoder import INVALID_JSON
from tests.integration.answer import Answer
from tests.integration.chat_client import ChatSession, open_session
from tests.integration.event_stream import read_events
from tests.integration.realtime_client import realtime
from tests.integration.transports import AT_HANDLERS, Transport

_STREAM = {"model": "planting", "stream": True}
_USER = [{"role": "user", "content": "TEXT"}]
_PARTS = [{"role": "user", "parts": [{"type": "text", "text": "TEXT"}]}]
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat completions": ("/v1/chat/completions", _STREAM | {"messages": _USER}),
    "responses": ("/v1/responses", _STREAM | {"input": "TEXT"}),
    "anthropic": ("/v1/messages", _STREAM | {"messages": _USER, "max_tokens": 9_000}),
    "ai sdk": ("/api/chat", {"id": "ID", "messages": _PARTS}),
    "ag-ui": ("/agui", {"threadId": "t", "runId": "ID", "messages": [{"id": "u1", **_USER[0]}]}),
}
"""Protocols whose request brings its conversation."""
_DELTAS = ("delta", "text", "content", "reasoning_content", "arguments", "thinking")
CHATS = (*AT_HANDLERS, "durable streams", "realtime")
PROTOCOLS = (*CHATS, *ASKED)


async def read_chat(
    http: aiohttp.ClientSession, url: str, plan: int, random: Random
) -> dict[str, str]:
    """The text of one response over each transport, each resumed at a place of chance."""
    session = await open_session(http, url)
    posted = await session.post("m1", None, f"plan {plan}")
    assert posted.status == 202, posted.body
    response_id: str = posted.json["response_id"]

    async def read(transport: Transport) -> str:
        answer = Answer()
        await transport(session, response_id, answer, random.randint(0, 40))
        if answer.end is None:
            await transport(session, response_id, answer, None)
        return "".join(map(text_of, answer.contents))

    async def read_stream() -> str:
        headers = {"Authorization": f"Bearer {session.token}"}
        query = "?offset=-1&live=sse"
        async with http.get(f"{url}/streams/{response_id}{query}", headers=headers) as stream:
            assert stream.status == 200, await stream.text()
            return await _assembled(stream)

    told = await asyncio.gather(*map(read, AT_HANDLERS.values()), read_stream())
    spoken = await _read_realtime(await open_session(http, url), plan)
    return dict(zip(CHATS, (*told, spoken), strict=True))


async def _read_realtime(session: ChatSession, plan: int) -> str:
    texts: list[str] = []
    async with realtime(session) as connection:
        await connection.start("m1", None, f"plan {plan}")
        while (frame := json.loads(await connection.websocket.recv()))["type"] != "final":
            texts += _texts(frame)
    return "".join(texts)


async def read_asked(
    http: aiohttp.ClientSession, url: str, plan: int, protocol: str
) -> dict[str, str]:
    """The text of an answer over a protocol whose request brings the conversation."""
    path, body = ASKED[protocol]
    text = json.dumps(body).replace("TEXT", f"plan {plan}").replace("ID", f"chat-{plan}")
    headers = {"Content-Type": "application/json", "Authorization": "Bearer sk-anything"}
    async with http.post(url + path, data=text, headers=headers) as stream:
        assert stream.status == 200, await stream.text()
        return {protocol: await _assembled(stream)}


async def _assembled(stream: aiohttp.ClientResponse) -> str:
    """All texts of a stream's events, one behind the other."""
    texts, inputs = list[str](), list[str]()
    async for event in read_events(stream):
        if event.data.startswith(("{", "[")) and event.data != "[DONE]":
            told = json.loads(event.data)
            texts += _texts(told)
            inputs += _inputs(told)
    if inputs:  # the planted arguments are no JSON
        texts.append(json.loads("".join(inputs))[INVALID_JSON])
    return "".join(texts)


def _inputs(event: Any) -> Iterator[str]:
    """More of the input of a call in an event of Anthropic's."""
    match event:
        case {"delta": {"partial_json": str(text)}}:
            yield text


def _texts(value: Any) -> Iterator[str]:
    """The deltas in an event, of whatever protocol."""
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str):
                yield from [inner] if name in _DELTAS else ()
            else:
                yield from _texts(inner)
