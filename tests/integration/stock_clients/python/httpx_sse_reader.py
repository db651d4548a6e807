"""httpx-sse, which gives an event for whatever stands before an empty line; on `/v1` and on
Evenflow's own events.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
from httpx_sse import aconnect_sse
from side_by_side import Server, run


async def read(server: Server, script: str) -> Any:
    body = {
        "model": server.model,
        "stream": True,
        "messages": [{"role": "user", "content": server.question(script)}],
    }
    text = ""
    async with (
        httpx.AsyncClient(timeout=30) as client,
        aconnect_sse(client, "POST", f"{server.url}/chat/completions", json=body) as events,
    ):
        async for event in events.aiter_sse():
            if event.data == "[DONE]":
                return text
            for choice in json.loads(event.data)["choices"]:
                text += choice["delta"].get("content") or ""
    raise AssertionError("the stream ended without [DONE]")


async def stream(server: Server) -> Any:
    return await read(server, "text")


async def silence_first(server: Server) -> Any:
    return await read(server, "silence-first")


async def silence_within(server: Server) -> Any:
    return await read(server, "silence-within")


async def own_events(server: Server) -> Any:
    """The types of what came of a chat message, and its text; the server alone has this call."""
    async with httpx.AsyncClient(base_url=server.url.removesuffix("/v1"), timeout=30) as client:
        session = (await client.post("/session", json={})).raise_for_status().json()
        headers = {"Authorization": f"Bearer {session['token']}"}
        payload = {"text": server.question("silence-within")}
        message = {"message_id": "m1", "previous_message_id": None, "payload": payload}
        accepted = (
            (await client.post("/chat/message", json=message, headers=headers))
            .raise_for_status()
            .json()
        )
        path = f"/chat/message/{accepted['response_id']}/events"
        async with aconnect_sse(client, "GET", path, headers=headers) as events:
            frames = [json.loads(event.data) async for event in events.aiter_sse()]
    text = "".join(frame.get("delta", "") for frame in frames)
    return {"text": text, "types": sorted({frame["type"] for frame in frames})}


if __name__ == "__main__":
    run(globals())
