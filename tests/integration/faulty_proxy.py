"""A proxy in front of a server that does what proxies should not: one request a connection, bytes
passed on as they come, but for one fault.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto

_END = b"\r\n\r\n"
_CUT_AT = 600


def _answer(status: bytes, content_type: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close"
    return head % (status, content_type, len(body)) + _END + body


_REFUSAL = _answer(b"403 Forbidden", b"text/plain", b"none")
_TIRED = _answer(b"504 Gateway Timeout", b"text/plain", b"")


class Fault(Enum):
    """What it does wrong."""

    NONE = auto()
    DROPS_UPGRADES = auto()
    BUFFERS_STREAMS = auto()
    CUTS_STREAMS = auto()
    STRIPS_COOKIES = auto()
    SPREADS_COOKIES = auto()  # the cookie that comes back is another one each time
    CACHES_ERRORS = auto()
    DROPS_VIA = auto()
    DROPS_PAGE_POLICY = auto()
    DROPS_NO_STORE = auto()
    TIRES_OF_SILENCE = auto()  # of whole answers, which say nothing until they are done
    FORGETS_LAST_EVENT_ID = auto()
    REFUSES_CANCEL = auto()
    CHANGES_HOST = auto()
    CHANGES_POLLED_TEXT = auto()
    REFUSES_V1 = auto()
    DRAINS_EVENTS = auto()  # as a task does that leaves
    HIDES_MODELS = auto()
    STREAMS_A_LIST = auto()
    ADDS_ODD_COOKIE = auto()


# What it answers by itself, at the paths that match.
_INSTEAD = {
    Fault.REFUSES_CANCEL: (rb"/cancel$", _REFUSAL),
    Fault.REFUSES_V1: (rb"^/v1/", _REFUSAL),
    Fault.DRAINS_EVENTS: (
        rb"/events$",
        _answer(
            b"503 Service Unavailable",
            b"application/json",
            b'{"error":{"type":"overloaded_error","code":"draining","message":"leaving"}}',
        ),
    ),
    Fault.HIDES_MODELS: (
        rb"^/v1/models$",
        _answer(b"200 OK", b"application/json", b'{"object":"list","data":[]}'),
    ),
    Fault.STREAMS_A_LIST: (
        rb"^/api/chat$",
        _answer(b"200 OK", b"text/event-stream", b"data: []\n\n"),
    ),
}
# How the requests begin whose answers lack a header.
_DROPPED = {
    Fault.STRIPS_COOKIES: (b"", b"Set-Cookie"),
    Fault.DROPS_VIA: (b"", b"Evenflow-Via"),
    Fault.DROPS_PAGE_POLICY: (b"GET / ", b"Content-Security-Policy"),
    Fault.DROPS_NO_STORE: (b"POST /session ", b"Cache-Control"),
}


@dataclass
class FaultyProxy:
    """A running one. `upstream` is the server's port."""

    upstream: int
    fault: Fault
    port: int = 0
    errors: dict[bytes, bytes] = field(default_factory=dict)
    exchanges: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        async with _closed(writer):
            request = await reader.readuntil(_END)
            self.exchanges += 1
            refused = self._refused(request)
            if refused is None:
                await self._exchange(request, reader, writer)
            else:
                writer.write(refused)
                await writer.drain()

    def _refused(self, request: bytes) -> bytes | None:
        path = request.split(b" ", 2)[1]
        if self.fault is Fault.DROPS_UPGRADES and b"upgrade: websocket" in request.lower():
            return _REFUSAL
        if self.fault in _INSTEAD:
            pattern, answer = _INSTEAD[self.fault]
            return answer if re.search(pattern, path) else None
        return self.errors.get(path)

    async def _exchange(
        self, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        upgrade = b"upgrade: websocket" in request.lower()
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self.upstream)
        sent = self._changed_request(request)
        if not upgrade:
            sent = sent.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        to_server.write(sent)
        passing = asyncio.create_task(_pass_on(reader, to_server))
        async with _closed(to_server):
            try:
                head = self._changed_head(request, await from_server.readuntil(_END))
                await self._pass_body(request, head, from_server, writer)
            finally:
                passing.cancel()

    async def _pass_body(
        self,
        request: bytes,
        head: bytes,
        from_server: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        stream = b"text/event-stream" in head
        whole = request.startswith(b"POST /v1/") and not stream
        path = request.split(b" ", 2)[1]
        if self.fault is Fault.CACHES_ERRORS and head.split()[1][:1] == b"4":
            self.errors[path] = head + await from_server.read()
            writer.write(self.errors[path])
        elif self.fault is Fault.BUFFERS_STREAMS and stream:
            writer.write(head + await from_server.read())
        elif self.fault is Fault.CUTS_STREAMS and stream:
            writer.write(head + await from_server.readexactly(_CUT_AT))
        elif self.fault is Fault.TIRES_OF_SILENCE and whole:
            writer.write(_TIRED)
        elif self.fault is Fault.CHANGES_POLLED_TEXT and b"from_index=" in path:
            body = re.sub(rb'(?<="full_text":").', b"#", await from_server.read())
            writer.write(head + body)
        else:
            writer.write(head)
            await _pass_on(from_server, writer)
        await writer.drain()

    def _changed_request(self, request: bytes) -> bytes:
        if self.fault is Fault.FORGETS_LAST_EVENT_ID:
            return _without(request, b"Last-Event-ID")
        if self.fault is Fault.CHANGES_HOST:
            return re.sub(rb"(?i)\r\nhost: [^\r]*", b"\r\nHost: 127.0.0.1:9", request)
        return request

    def _changed_head(self, request: bytes, head: bytes) -> bytes:
        if self.fault is Fault.SPREADS_COOKIES:
            return head.replace(b"WSID=", b"WSID=task%d-" % self.exchanges)
        if self.fault is Fault.ADDS_ODD_COOKIE:
            return head.replace(_END, b"\r\nSet-Cookie: a/b=1" + _END)
        of, dropped = _DROPPED.get(self.fault, (b"", None))
        if dropped is not None and request.startswith(of):
            return _without(head, dropped)
        return head


@asynccontextmanager
async def faulty_proxy(upstream: int, fault: Fault) -> AsyncIterator[FaultyProxy]:
    """One on a free port."""
    proxy = FaultyProxy(upstream, fault)
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        await proxy.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    async with server:
        yield proxy
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)


@asynccontextmanager
async def _closed(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close it in the end, whoever hangs up first."""
    try:
        with suppress(OSError, asyncio.IncompleteReadError):
            yield
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


def _without(head: bytes, header: bytes) -> bytes:
    return re.sub(rb"(?i)\r\n" + header + rb": [^\r]*", b"", head)
