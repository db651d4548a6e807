"""A client of `/v1/chat/completions` that sees the bytes: what each event says, and in which
order.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.integration.answer import Frame
from tests.integration.chat_client import HttpAnswer, call
from tests.integration.event_stream import read_events
from tests.integration.server_process import Server

_HEADERS = ("Idempotency_Key", "Last_Event_ID")


@dataclass
class Streamed:
    """What came of a stream."""

    text: str = ""
    last_id: str = ""
    finish_reason: str | None = None
    usage: Frame | None = None
    error: Frame | None = None
    done: bool = False
    comments: int = 0
    chunks: list[Frame] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    calls: dict[int, Frame] = field(default_factory=dict)
    """Calls by their index, as `message.tool_calls` would have them."""

    @property
    def last_index(self) -> int:
        """The index of the last id."""
        return int(self.last_id.split(".")[0] or -1)

    def take(self, data: str, event_id: str) -> None:
        """One event."""
        assert not self.done, "something came behind [DONE]"
        if data == "[DONE]":
            self.done = True
            return
        body: Frame = json.loads(data)
        if "error" in body:
            self.error = body["error"]
            return
        assert event_id, f"a chunk without an id: {body}"
        assert body["object"] == "chat.completion.chunk"
        self.ids.append(event_id)
        self.last_id = event_id
        self.chunks.append(body)
        self.usage = body.get("usage") or self.usage
        for choice in body["choices"]:
            assert choice["index"] == 0
            self.text += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls", []):
                self._take_call(part)
            self.finish_reason = choice["finish_reason"] or self.finish_reason

    def _take_call(self, part: Frame) -> None:
        index = part["index"]
        if "id" in part:
            assert index not in self.calls, "a call begins once"
            self.calls[index] = {
                "id": part["id"],
                "type": part["type"],
                "function": dict(part["function"]),
            }
        else:
            assert part.keys() == {"index", "function"}
            assert part["function"].keys() == {"arguments"}
            self.calls[index]["function"]["arguments"] += part["function"]["arguments"]


class Completions:
    """Asks one server.

    Args:
        key: sent as the bearer token.
    """

    def __init__(
        self, http: aiohttp.ClientSession, server: Server, key: str = "sk-anything"
    ) -> None:
        self._http = http
        self._url = f"{server.http_url}/v1"
        self._key = key

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"} | named

    async def get(self, path: str) -> HttpAnswer:
        """`GET /v1…`."""
        return await call(self._http, "GET", self._url + path, headers=self._headers({}))

    async def post(self, body: object, **headers: str) -> HttpAnswer:
        """`POST /v1/chat/completions`, whatever the body; underscores in header names stand for
        dashes.
        """
        return await call(
            self._http,
            "POST",
            f"{self._url}/chat/completions",
            body,
            headers=self._headers(headers),
        )

    async def ask(self, text: str, /, key: str | None = None, **parameters: Any) -> HttpAnswer:
        """An answer that is given whole."""
        return await self.post(asking(text, **parameters), **_keyed(key))

    @asynccontextmanager
    async def open(self, text: str, /, **parameters: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a stream."""
        names = [name for name in parameters if name in _HEADERS]
        headers: dict[str, str] = {name: parameters.pop(name) for name in names}
        body = json.dumps(asking(text, stream=True, **parameters)).encode()
        url = f"{self._url}/chat/completions"
        async with self._http.post(url, data=body, headers=self._headers(headers)) as answer:
            yield answer

    async def stream(self, text: str, /, **parameters: Any) -> Streamed:
        """A stream to its end."""
        async with self.open(text, **parameters) as answer:
            assert answer.status == 200, await answer.text()
            return await read_stream(answer)


def asking(text: str, /, **parameters: Any) -> Frame:
    """The body of a request."""
    return {"model": "demo", "messages": [{"role": "user", "content": text}]} | parameters


async def read_stream(
    answer: aiohttp.ClientResponse, streamed: Streamed | None = None, until_index: int | None = None
) -> Streamed:
    """Take events to the stream's end, or until the client has this index."""
    streamed = streamed or Streamed()
    async for event in read_events(answer):
        if event.comment:
            streamed.comments += 1
            continue
        assert not event.kind, "OpenAI's streams have no event types"
        streamed.take(event.data, event.id)
        if until_index is not None and streamed.last_index >= until_index:
            break
    return streamed


def _keyed(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Idempotency_Key": key}
