"""Writes streams into Evenflow as the suite of Durable Streams does, and passes its reads on.

Evenflow serves only reads. So `PUT` makes a response here, and `POST` has its model say the body:
one entry. Reads go to `/streams` and come back with its status and headers; of each message only
what was written is left, without the frame around it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

_NEXT_OFFSET, _CLOSED = "Stream-Next-Offset", "Stream-Closed"
_ASKED = (
    "If-None-Match",
    "Origin",
    "Access-Control-Request-Method",
    "Access-Control-Request-Headers",
)
# Headers of Evenflow's body, and of this server; those of the stream's place are all passed on.
_OWN = ("content-length", "transfer-encoding", "connection", "date", "server")
_MOST_BYTES_OF_EVENT = 1 << 20
_LINE_END = re.compile(rb"\r\n|\r|\n")

Frames = list[dict[str, Any]]


@dataclass
class Written:
    """A stream of the suite: its model says what comes into `said`, and ends at None."""

    content_type: str
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    said: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    tail: dict[str, str] = field(default_factory=dict)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def _is_json(self) -> bool:
        return self.content_type.partition(";")[0].strip().lower() == "application/json"

    def text_of(self, body: bytes) -> str:
        """The text that the model says for a body: a list of messages, or each byte's character."""
        if not self._is_json:
            return body.decode("latin-1")
        given = json.loads(body)
        return json.dumps(given if isinstance(given, list) else [given])

    def body_of(self, frames: Frames) -> bytes:
        """What was written, of these messages. The one that ends a response has nothing of it."""
        texts = [frame["delta"] for frame in frames if "delta" in frame]
        if not self._is_json:
            return "".join(texts).encode("latin-1")
        return json.dumps([message for text in texts for message in json.loads(text)]).encode()

    def event_of(self, event: bytes) -> bytes:
        """A server-sent event with what was written for its messages; others as they are."""
        name, _, data = event.partition(b"\ndata:")
        if name != b"event: data":
            return event
        frames: Frames = json.loads(data)
        if not any("delta" in frame for frame in frames):
            return b""
        lines = _LINE_END.split(self.body_of(frames))
        return b"event: data\n%b\n" % b"".join(b"data:%b\n" % line for line in lines)


class Writer:
    """The server that the suite asks, and the model's server that Evenflow asks."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.url = ""
        self.evenflow_url = ""
        self._http = http
        self._streams: dict[str, Written] = {}

    @property
    def model_url(self) -> str:
        """Where Evenflow finds its model."""
        return f"{self.url}/model/v1"

    def stop(self) -> None:
        """End all models, so that nobody waits for them."""
        for stream in self._streams.values():
            stream.said.put_nowait(None)

    async def model(self, request: web.Request) -> web.StreamResponse:
        """Say what is written to the stream that the question names."""
        asked = await request.json()
        said = self._streams[asked["messages"][-1]["content"]].said
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        while (text := await said.get()) is not None:
            await answer.write(_chunk({"content": text}, None))
        await answer.write(_chunk({}, "stop") + b"data: [DONE]\n\n")
        return answer

    async def put(self, request: web.Request) -> web.Response:
        """Make a stream, with its first body if there is one."""
        path, status = request.path, 200
        if path not in self._streams:
            content_type = request.headers.get("Content-Type", "application/octet-stream")
            self._streams[path] = Written(content_type)
            await self._begin(path, self._streams[path])
            status = 201
            await self._write(self._streams[path], request)
        headers = self._streams[path].tail | {"Location": str(request.url)}
        return web.Response(status=status, headers=headers)

    async def post(self, request: web.Request) -> web.Response:
        """Append a body, and close the stream where that is asked for."""
        stream = self._streams[request.path]
        await self._write(stream, request)
        return web.Response(status=204, headers=stream.tail)

    async def read(self, request: web.Request) -> web.StreamResponse:
        """Pass a read on, and give back what was written."""
        stream = self._streams.get(request.path) or await self._nobodys()
        asked = {name: request.headers[name] for name in _ASKED if name in request.headers}
        url = f"{stream.url}?{request.rel_url.raw_query_string}"
        async with self._http.request(
            request.method, url, headers=asked | stream.headers
        ) as answer:
            headers = {name: v for name, v in answer.headers.items() if name.lower() not in _OWN}
            if answer.content_type == "text/event-stream" and answer.status == 200:
                return await _pass_events(request, stream, answer, headers)
            body = await answer.read()
            if answer.status == 200 and request.method in ("GET", "HEAD"):
                headers["Content-Type"] = stream.content_type
                body = stream.body_of(json.loads(body)) if body else b""
            return web.Response(status=answer.status, body=body, headers=headers)

    async def _session(self) -> dict[str, str]:
        """The headers that open a session's responses."""
        async with self._http.post(f"{self.evenflow_url}/session", json={}) as opened:
            return {"Authorization": f"Bearer {(await opened.json())['token']}"}

    async def _begin(self, path: str, stream: Written) -> None:
        stream.headers = await self._session()
        message = {"message_id": "m1", "previous_message_id": None, "payload": {"text": path}}
        async with self._http.post(
            f"{self.evenflow_url}/chat/message", json=message, headers=stream.headers
        ) as accepted:
            stream.url = f"{self.evenflow_url}/streams/{(await accepted.json())['response_id']}"
        await self._look(stream)

    async def _nobodys(self) -> Written:
        """What a session asks that has no such stream."""
        url = f"{self.evenflow_url}/streams/rsp_of_nobody"
        return Written("text/plain", url, await self._session())

    async def _write(self, stream: Written, request: web.Request) -> None:
        """Have the model say a body, and end where that is asked; return when it can be read."""
        body = await request.read()
        async with stream.writing:
            if body not in (b"", b"[]"):
                await self._say(stream, stream.text_of(body))
            if request.headers.get(_CLOSED) == "true":
                await self._say(stream, None)

    async def _say(self, stream: Written, text: str | None) -> None:
        before = stream.tail
        stream.said.put_nowait(text)
        while stream.tail == before:
            await self._look(stream, offset=before[_NEXT_OFFSET], live="long-poll")

    async def _look(self, stream: Written, **query: str) -> None:
        """Learn where the stream ends."""
        async with self._http.get(stream.url, params=query, headers=stream.headers) as told:
            place = (_NEXT_OFFSET, _CLOSED)
            stream.tail = {name: told.headers[name] for name in place if name in told.headers}


def _chunk(delta: dict[str, str], finish_reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


async def _pass_events(
    request: web.Request, stream: Written, told: aiohttp.ClientResponse, headers: dict[str, str]
) -> web.StreamResponse:
    answer = web.StreamResponse(headers=headers)
    await answer.prepare(request)
    while (event := await told.content.readuntil(b"\n\n")) != b"":
        await answer.write(stream.event_of(event))
    return answer


@asynccontextmanager
async def running_writer() -> AsyncIterator[Writer]:
    """Serve one on a free port. `evenflow_url` is set by whoever starts Evenflow."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        skip_auto_headers=("Accept-Encoding",),
        read_bufsize=_MOST_BYTES_OF_EVENT,
    ) as http:
        writer = Writer(http)
        app = web.Application()
        app.router.add_post("/model/v1/chat/completions", writer.model)
        app.router.add_put("/{path:.*}", writer.put)
        app.router.add_post("/{path:.*}", writer.post)
        for method in ("GET", "OPTIONS"):
            app.router.add_route(method, "/{path:.*}", writer.read)
        app.router.add_head("/{path:.*}", writer.read)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        writer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield writer
        finally:
            writer.stop()
            await runner.cleanup()
