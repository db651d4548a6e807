"""A client of `/api/chat` and `/agui` that sees the events, and which task gave them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.integration.chat_client import HttpAnswer, call
from tests.integration.event_stream import read_events
from tests.integration.server_process import Server

_TEXTS = ("text-delta", "TEXT_MESSAGE_CONTENT")


@dataclass
class Heard:
    """What came of a stream."""

    text: str = ""
    last_id: str = ""
    types: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def message_id(self) -> str:
        """The id that the beginning of a chat's stream says."""
        told: str = self.events[0]["messageId"]
        return told


class InterfaceClient:
    """Asks one server for answers in a chat, or for runs in a thread.

    Args:
        key: sent as the bearer token.
    """

    def __init__(
        self, http: aiohttp.ClientSession, server: Server, key: str = "sk-anything"
    ) -> None:
        self._http = http
        self._url = server.http_url
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}

    def send(self, chat_id: str, text: str, before: Sequence[object] = (), **headers: str) -> Any:
        """`POST /api/chat`, with what was said before."""
        parts = [{"type": "text", "text": text}]
        messages = [*before, {"id": "u1", "role": "user", "parts": parts}]
        return self._open("POST", "/api/chat", {"id": chat_id, "messages": messages}, headers)

    def resume(self, chat_id: str, response_id: str = "", **headers: str) -> Any:
        """`GET /api/chat/{id}/stream`."""
        query = f"?response_id={response_id}" if response_id else ""
        return self._open("GET", f"/api/chat/{chat_id}/stream{query}", None, headers)

    async def messages(self, chat_id: str, query: str = "") -> HttpAnswer:
        """`GET /api/chat/{id}`."""
        url = f"{self._url}/api/chat/{chat_id}{query}"
        return await call(self._http, "GET", url, headers=self._headers)

    def run(self, run_id: str, text: str | None, **headers: str) -> Any:
        """`POST /agui`. Without a text there is no message."""
        messages = [{"id": "u1", "role": "user", "content": text}] if text is not None else []
        body = {"threadId": "thread", "runId": run_id, "messages": messages}
        return self._open("POST", "/agui", body, headers)

    async def stop(self, chat_id: str) -> HttpAnswer:
        """`POST /api/chat/{id}/stop`."""
        url = f"{self._url}/api/chat/{chat_id}/stop"
        return await call(self._http, "POST", url, {}, headers=self._headers)

    async def stop_run(self, run_id: str) -> HttpAnswer:
        """`POST /agui/stop`."""
        body = {"threadId": "thread", "runId": run_id}
        return await call(self._http, "POST", f"{self._url}/agui/stop", body, headers=self._headers)

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, body: object, headers: dict[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        async with self._http.request(
            method, self._url + path, data=data, headers=self._headers | named
        ) as answer:
            yield answer


async def hear(
    answer: aiohttp.ClientResponse, heard: Heard | None = None, *, characters: int | None = None
) -> Heard:
    """Read a stream to its end, or until the text has so many characters."""
    assert answer.status == 200, await answer.text()
    heard = heard or Heard()
    async for event in read_events(answer):
        if event.comment or event.data == "[DONE]":
            continue
        heard.last_id = event.id or heard.last_id
        heard.events.append(event.frame)
        heard.types.append(event.frame["type"])
        if event.frame["type"] in _TEXTS:
            heard.text += event.frame["delta"]
        if characters is not None and len(heard.text) >= characters:
            break
    return heard
