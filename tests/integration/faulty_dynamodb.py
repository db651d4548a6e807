"""DynamoDB in front of the emulator, with faults on command: a proxy on a port of its own.

Without a fault it is the emulator made truer: it refuses what DynamoDB refuses (`dynamodb_request_rules`), remembers a
transaction's ClientRequestToken, which the emulator ignores, and passes on one request at a time, because the emulator's
cancelled transactions roll back whole tables, with whatever others have written meanwhile.

    async with faulty_dynamodb(emulator.endpoint) as dynamodb:
        environment = emulator.environment | dynamodb.environment   # for the process that should call it
        dynamodb.inject(Fault.THROTTLED, "BatchWriteItem", share=0.3)
        ...
        await dynamodb.refuse_connections()
        ...
        await dynamodb.heal()                                       # no fault any more, the port open again
        assert dynamodb.refused == []                               # what DynamoDB itself would not have taken
"""

from __future__ import annotations

import asyncio
import io
import json
import random
import socket
import struct
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import aiohttp
from aiohttp import web

from tests.integration.dynamodb_request_rules import breaches
from tests.integration.server_process import free_port

_NAMESPACE = "com.amazonaws.dynamodb.v20120810#"
_LARGEST_BODY = 64 * 1024 * 1024
_JSON = "application/x-amz-json-1.0"
_THROTTLED = (
    "The level of configured provisioned throughput for the table was exceeded. "
    "Consider increasing your provisioning level with the UpdateTable API."
)


class Fault(Enum):
    """What happens to a request instead of its answer, or before it."""

    THROTTLED = auto()
    """HTTP 400 ProvisionedThroughputExceededException; nothing was done."""
    UNPROCESSED = auto()
    """BatchWriteItem: about half of the writes, at least one, are handed back as UnprocessedItems."""
    INTERNAL_ERROR = auto()
    """HTTP 500 InternalServerError; nothing was done."""
    BARE_503 = auto()
    """HTTP 503 with a page of HTML, as a front end gives it; nothing was done."""
    DELAYED = auto()
    """Done and answered `seconds` later, and done also when the caller has given up meanwhile."""
    RESET_BEFORE = auto()
    """The connection is reset; nothing was done."""
    RESET_AFTER = auto()
    """It was done, but the connection is reset before the answer: the caller can't know."""


@dataclass
class Injection:
    """A fault in force: for these operations (all when empty) whose request has `wording` in it, this share of them, at
    most `times` of them.
    """

    fault: Fault
    operations: frozenset[str]
    wording: bytes = b""
    share: float = 1.0
    times: int | None = None
    seconds: float = 0.0

    def applies(self, operation: str, body: bytes, dice: random.Random) -> bool:
        """Whether it strikes this request; counts it down if so."""
        meant = (not self.operations or operation in self.operations) and self.wording in body
        if self.times == 0 or not meant or dice.random() >= self.share:
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass
class HeldRequest:
    """The next request of an operation that has `wording` in it, held before it is done. Await `reached`, then set
    `released`.
    """

    operation: str
    wording: bytes
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)


class FaultyDynamoDB:
    """The proxy. `faulty_dynamodb` makes one.

    Args:
        upstream: the emulator's URL.
        seed: of the dice that choose which requests a share of less than 1 strikes.
    """

    def __init__(self, upstream: str, seed: int = 0) -> None:
        self.port = free_port()
        self.endpoint = f"http://localhost:{self.port}"
        self.requests: Counter[str] = Counter()
        """Requests that arrived, by operation."""
        self.struck: Counter[Fault] = Counter()
        """Requests that a fault struck."""
        self.refused: list[str] = []
        """What DynamoDB would not have taken, and why."""
        self.eventual_reads = 0
        """Reads of a table without ConsistentRead: DynamoDB may answer them with the past, the emulator never does."""
        self._upstream = upstream
        self._dice = random.Random(seed)
        self._injections: list[Injection] = []
        self._held: list[HeldRequest] = []
        self._tokens: dict[str, tuple[bytes, web.Response]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._client = aiohttp.ClientSession(auto_decompress=False)
        application = web.Application(client_max_size=_LARGEST_BODY)
        application.router.add_post("/", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        self._site: web.TCPSite | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variable that sends a process' DynamoDB calls here; its other calls go where they went."""
        return {"AWS_ENDPOINT_URL_DYNAMODB": self.endpoint}

    # -- commands ------------------------------------------------------------------------------------------------

    def inject(
        self,
        fault: Fault,
        *operations: str,
        wording: str = "",
        share: float = 1.0,
        times: int | None = None,
        seconds: float = 0.0,
    ) -> Injection:
        """Put a fault in force, for these operations or for all; the first that strikes a request counts."""
        injection = Injection(fault, frozenset(operations), wording.encode(), share, times, seconds)
        self._injections.append(injection)
        return injection

    def withdraw(self, injection: Injection) -> None:
        """End one fault."""
        self._injections.remove(injection)

    def hold(self, operation: str, wording: str = "") -> HeldRequest:
        """Hold the next request of this operation, with this in it."""
        held = HeldRequest(operation, wording.encode())
        self._held.append(held)
        return held

    async def refuse_connections(self) -> None:
        """Close the port and reset what is open: nobody is there."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        for connection in self._runner.server.connections if self._runner.server else ():
            _reset(connection.transport)

    async def accept_connections(self) -> None:
        """Open the port (again)."""
        if self._site is None:
            self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
            await self._site.start()

    async def heal(self) -> None:
        """End every fault, let go of what is held, open the port."""
        self._injections.clear()
        for held in self._held:
            held.released.set()
        self._held.clear()
        await self.accept_connections()

    # -- its life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve."""
        await self._runner.setup()
        await self.accept_connections()

    async def stop(self) -> None:
        """End; requests that are held or delayed are given up."""
        await self.refuse_connections()
        await self._runner.cleanup()
        await self._client.close()

    # -- requests ------------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        operation = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        self.requests[operation] += 1
        held = next((held for held in self._held if held.operation == operation and held.wording in body), None)
        if held is not None:
            self._held.remove(held)
            held.reached.set()
            await held.released.wait()
        injection = next((each for each in self._injections if each.applies(operation, body, self._dice)), None)
        if injection is None:
            return await self._pass_on(request, operation, body)
        self.struck[injection.fault] += 1
        return await self._strike(injection, request, operation, body)

    async def _strike(
        self, injection: Injection, request: web.Request, operation: str, body: bytes
    ) -> web.StreamResponse:
        match injection.fault:
            case Fault.UNPROCESSED:
                return await self._process_half(request, operation, body)
            case Fault.DELAYED:
                await asyncio.sleep(injection.seconds)
                return await self._pass_on(request, operation, body)
            case Fault.RESET_AFTER:
                await self._pass_on(request, operation, body)
                return _reset(request.transport)
            case Fault.RESET_BEFORE:
                return _reset(request.transport)
            case refusal:
                return _refusal(refusal)

    async def _process_half(self, request: web.Request, operation: str, body: bytes) -> web.Response:
        assert operation == "BatchWriteItem", f"{operation} has no UnprocessedItems"
        wanted = json.loads(body)
        taken: dict[str, list[Any]] = {}
        left: dict[str, list[Any]] = {}
        for table, writes in wanted["RequestItems"].items():
            count = self._dice.randint(len(writes) // 2, max(len(writes) - 1, 0))
            self._dice.shuffle(writes)
            taken |= {table: writes[:count]} if count else {}
            left[table] = writes[count:]
        if taken:
            answer = await self._pass_on(request, operation, json.dumps(wanted | {"RequestItems": taken}).encode())
            if answer.status != 200:
                return answer
        return _json(200, {"UnprocessedItems": left})

    async def _pass_on(self, request: web.Request, operation: str, body: bytes) -> web.Response:
        """What DynamoDB would answer."""
        wanted = json.loads(body)
        if found := breaches(operation, wanted):
            self.refused += found
            return _error(400, "ValidationException", "; ".join(found), "com.amazon.coral.validate#")
        # An index can be read in no other way: who does expects it.
        eventual = not wanted.get("ConsistentRead") and "IndexName" not in wanted
        if operation in {"GetItem", "Query"} and eventual:
            self.eventual_reads += 1
        token = wanted.get("ClientRequestToken") if operation == "TransactWriteItems" else None
        async with self._one_at_a_time:
            if token in self._tokens:
                return self._answer_again(token, body)
            headers = {
                name: request.headers[name] for name in ("X-Amz-Target", "Authorization") if name in request.headers
            }
            async with self._client.post(
                self._upstream, data=io.BytesIO(body), headers=headers | {"Content-Type": _JSON}
            ) as answer:
                response = _plain(answer.status, await answer.read())
            if token is not None and answer.status == 200:
                self._tokens[token] = body, response
            return response

    def _answer_again(self, token: str, body: bytes) -> web.Response:
        first_body, response = self._tokens[token]
        if first_body != body:
            return _error(400, "IdempotentParameterMismatchException", "The token was used with other parameters.")
        assert isinstance(response.body, bytes)
        return _plain(response.status, response.body)


@asynccontextmanager
async def faulty_dynamodb(upstream: str, seed: int = 0) -> AsyncIterator[FaultyDynamoDB]:
    """Run one in this event loop, in front of the emulator at `upstream`."""
    proxy = FaultyDynamoDB(upstream, seed)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


def _reset(transport: asyncio.Transport | None) -> web.Response:
    """Reset a connection. The response is only what the server wants to have; nobody gets it."""
    if transport is not None:
        # Linger on, for no time: what closes then sends RST instead of FIN.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()


def _refusal(fault: Fault) -> web.Response:
    if fault is Fault.THROTTLED:
        return _error(400, "ProvisionedThroughputExceededException", _THROTTLED)
    if fault is Fault.INTERNAL_ERROR:
        return _error(500, "InternalServerError", "The request processing has failed because of an unknown error.")
    return web.Response(status=503, text="<html>503 Service Unavailable</html>", content_type="text/html")


def _error(status: int, code: str, message: str, namespace: str = _NAMESPACE) -> web.Response:
    return _json(status, {"__type": f"{namespace}{code}", "message": message})


def _json(status: int, body: dict[str, Any]) -> web.Response:
    return _plain(status, json.dumps(body).encode())


def _plain(status: int, body: bytes) -> web.Response:
    headers = {"Content-Type": _JSON, "x-amz-crc32": str(zlib.crc32(body))}
    return web.Response(status=status, body=body, headers=headers)
