"""DynamoDB's wire protocol, JSON 1.0 over HTTP/1.1, as lean as it can be; and the two paths that no SDK asks for.

POST /          X-Amz-Target: DynamoDB_20120810.GetItem
GET  /_counts   calls by operation
GET  /_faults   the faults in force
POST /_faults   others instead, see `Faults`; `{}` ends them all
"""

from __future__ import annotations

import asyncio
import socket
import struct
import zlib
from dataclasses import dataclass
from typing import cast

import orjson
from pydantic import ValidationError

from tests.dynamodb_emulator.faults import Faults
from tests.dynamodb_emulator.service import OPERATIONS, Service

_TARGET = "DynamoDB_20120810."
_LARGEST_HEAD = 64 * 1024
_LARGEST_BODY = 16 * 1024 * 1024
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 411: "Length Required", 413: "Payload Too Large"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request, whole."""

    method: str
    path: str
    target: str
    body: bytes
    keeps_alive: bool


class Head:
    """The part of a request before its body.

    Raises:
        ValueError: it is no HTTP.
    """

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, version = first.split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.target = headers.get("x-amz-target", "")
        self.length = int(headers.get("content-length", "0"))
        self.chunked = "transfer-encoding" in headers
        self.keeps_alive = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"


class HttpServer:
    """What the connections of one emulator share."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.connections: set[Connection] = set()

    def connection(self) -> Connection:
        """A new one, for `loop.create_server`."""
        return Connection(self)

    def answer(self, request: HttpRequest, asking: Connection) -> tuple[int, bytes]:
        """The status and body that a request is answered with."""
        if request.method == "POST" and request.path == "/":
            operation = request.target.removeprefix(_TARGET) if request.target.startswith(_TARGET) else ""
            return self.service.answer(operation, request.body)
        match request.method, request.path:
            case "GET", "/_counts":
                return 200, orjson.dumps(dict(self.service.calls))
            case "GET", "/_faults":
                return 200, self.service.database.faults.faults.model_dump_json().encode()
            case "POST", "/_faults":
                return self._inject(request.body, asking)
            case _:
                return 404, b"{}"

    def _inject(self, body: bytes, asking: Connection) -> tuple[int, bytes]:
        try:
            faults = Faults.model_validate_json(body)
        except ValidationError as error:
            return 400, orjson.dumps({"message": str(error)})
        if unknown := faults.throttled_operations - OPERATIONS.keys():
            return 400, orjson.dumps({"message": f"there are no operations {sorted(unknown)}"})
        self.service.database.faults.inject(faults)
        if faults.unreachable_seconds:
            for connection in self.connections - {asking}:
                connection.reset()
        return 200, faults.model_dump_json().encode()


class Connection(asyncio.Protocol):
    """One connection: requests one after the other, each answered before the next is looked at."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._received = bytearray()
        self._head: Head | None = None
        self._delayed: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take part."""
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Part; an answer that is still to come has nobody to go to."""
        self._server.connections.discard(self)
        if self._delayed is not None:
            self._delayed.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer what is whole."""
        self._received += data
        self._answer_all()

    def reset(self) -> None:
        """Let the peer have an RST: nobody is here."""
        # Linger on, for no time: what closes then sends RST instead of FIN.
        connected: socket.socket = self._transport.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _answer_all(self) -> None:
        while self._delayed is None and not self._transport.is_closing():
            try:
                request = self._request()
            except ValueError:
                self._write(400, b"{}", keeps_alive=False)
                return
            if request is None:
                return
            self._answer(request)

    def _request(self) -> HttpRequest | None:
        if self._head is None:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                if len(self._received) > _LARGEST_HEAD:
                    raise ValueError
                return None
            self._head = Head(bytes(self._received[:end]))
            del self._received[: end + 4]
        head = self._head
        if head.chunked or head.length > _LARGEST_BODY:
            self._write(411 if head.chunked else 413, b"{}", keeps_alive=False)
            return None
        if len(self._received) < head.length:
            return None
        body = bytes(self._received[: head.length])
        del self._received[: head.length]
        self._head = None
        return HttpRequest(head.method, head.path, head.target, body, head.keeps_alive)

    def _answer(self, request: HttpRequest) -> None:
        faults = self._server.service.database.faults
        is_command = request.path.startswith("/_")
        if faults.unreachable and not is_command:
            self.reset()
            return
        status, body = self._server.answer(request, self)
        if faults.faults.delay_ms and not is_command:
            loop = asyncio.get_running_loop()
            self._delayed = loop.call_later(
                faults.faults.delay_ms / 1000, self._answer_late, status, body, request.keeps_alive
            )
        else:
            self._write(status, body, keeps_alive=request.keeps_alive)

    def _answer_late(self, status: int, body: bytes, keeps_alive: bool) -> None:
        self._delayed = None
        self._write(status, body, keeps_alive=keeps_alive)
        self._answer_all()

    def _write(self, status: int, body: bytes, *, keeps_alive: bool) -> None:
        self._transport.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n"
            b"x-amz-crc32: %d\r\nx-amzn-RequestId: EMULATED\r\nConnection: %b\r\n\r\n%b"
            % (
                status,
                _REASONS[status].encode(),
                len(body),
                zlib.crc32(body),
                b"keep-alive" if keeps_alive else b"close",
                body,
            )
        )
        if not keeps_alive:
            self._transport.close()
