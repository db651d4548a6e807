"""DynamoDB in this process: ministack's tables behind a port of our own, with faults on command.

It refuses what DynamoDB refuses: ministack most of it, `dynamodb_request_rules` the rest. All
emulators of a process have the same tables, so that some tasks can reach them by a line of their
own that is slow or cut.

    async with dynamodb_emulator() as dynamodb:
        tables = dynamodb.create_tables("test")
        environment = dynamodb.environment     # for the process that should call it
        dynamodb.inject(Fault.THROTTLED, "BatchWriteItem", share=0.3)
        ...
        await dynamodb.refuse_connections()
        ...
        await dynamodb.heal()                  # no fault any more, the port open again
        assert dynamodb.refused == []          # what DynamoDB itself would not have taken
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock, Thread
from typing import Any

import boto3
from aiobotocore.session import AioSession
from aiohttp import web
from botocore.config import Config
from ministack.services import dynamodb as ministack

from evenflow.stream_aws.dynamodb import client_config
from evenflow.stream_aws.tables import TableNames
from tests.integration.aws_emulator import CREDENTIALS, SIGNED_BY, table_names, table_requests
from tests.integration.dynamodb_answers import cancelled, error, failed, plain
from tests.integration.dynamodb_faults import WRITES, Fault, HeldRequest, Injection
from tests.integration.dynamodb_request_rules import breaches
from tests.integration.server_process import free_port

_LARGEST_BODY = 64 * 1024 * 1024
_REFUSALS = {"ValidationException", "SerializationException", "UnknownOperationException"}
_BEGINS_WITH = re.compile(r"^\S+ = (:\w+) AND begins_with\(\S+, (:\w+)\)$")
_ONE_AT_A_TIME = Lock()
"""Emulators in several threads have the same tables."""


class DynamoDBEmulator:
    """One port. `dynamodb_emulator` and `threaded_dynamodb_emulator` make one.

    Args:
        port: of 127.0.0.1; a free one where none is given.
        seed: of the dice that choose which requests a share of less than 1 strikes.
        metered: whether it counts the units that requests would be billed with.
    """

    def __init__(self, port: int | None = None, seed: int = 0, *, metered: bool = False) -> None:
        self.port = port or free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.requests: Counter[str] = Counter()
        """Requests that arrived, by operation."""
        self.struck: Counter[Fault] = Counter()
        """Requests that a fault struck."""
        self.refused: list[str] = []
        """What DynamoDB would not have taken, and why."""
        self.eventual_reads = 0
        """Reads of a table without ConsistentRead, which DynamoDB may answer with the past."""
        self.units: Counter[tuple[str, str]] = Counter()
        """Read and write units by table and operation, indexes included. Only where `metered`."""
        self.transaction_seconds = 0.0
        """How long a transaction has its items for itself. A write that comes meanwhile meets a
        conflict, which ministack doesn't know.
        """
        self.application = web.Application(client_max_size=_LARGEST_BODY)
        self.application.router.add_post("/", self._answer)
        self._metered = metered
        self._dice = random.Random(seed)
        self._injections: list[Injection] = []
        self._held: list[HeldRequest] = []
        self._transactions: dict[str, bytes] = {}
        self._in_transactions: set[str] = set()
        self._runner = web.AppRunner(self.application, access_log=None, shutdown_timeout=0.1)
        self._site: web.TCPSite | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a process that should call this DynamoDB, but no other service here."""
        return {"AWS_ENDPOINT_URL_DYNAMODB": self.endpoint, **CREDENTIALS}

    def asynchronous_client(self, sdk: AioSession) -> Any:
        """A client of it as the handler makes one; for `async with`."""
        config = client_config(connections=32)
        return sdk.create_client("dynamodb", config=config, endpoint_url=self.endpoint, **SIGNED_BY)

    def client(self) -> Any:
        """A blocking client of it, which checks nothing itself. Not in the emulator's own loop."""
        config = Config(parameter_validation=False, retries={"total_max_attempts": 1})
        return boto3.client("dynamodb", config=config, endpoint_url=self.endpoint, **SIGNED_BY)

    def create_tables(self, prefix: str) -> TableNames:
        """The four tables, empty, named after `prefix`."""
        names = table_names(prefix)
        for request in table_requests(names):
            status, answer = _ministack("CreateTable", json.dumps(request).encode())
            assert status == 200, answer
        return names

    # -- commands ----------------------------------------------------------------------------------

    def inject(
        self,
        fault: Fault,
        *operations: str,
        wording: str = "",
        share: float = 1.0,
        times: int | None = None,
        seconds: float = 0.0,
    ) -> Injection:
        """Put a fault in force, for these operations or for all. The first that strikes counts."""
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
            self._site = web.TCPSite(
                self._runner, "127.0.0.1", self.port, backlog=4096, reuse_address=True
            )
            await self._site.start()

    async def heal(self) -> None:
        """End every fault, let go of what is held, open the port."""
        self._injections.clear()
        for held in self._held:
            held.released.set()
        self._held.clear()
        await self.accept_connections()

    # -- its life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve."""
        await self._runner.setup()
        await self.accept_connections()

    async def stop(self) -> None:
        """End; requests that are held or delayed are given up."""
        await self.refuse_connections()
        await self._runner.cleanup()

    # -- requests ----------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        operation = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        self.requests[operation] += 1
        held = next(
            (held for held in self._held if held.operation == operation and held.wording in body),
            None,
        )
        if held is not None:
            self._held.remove(held)
            held.reached.set()
            await held.released.wait()
        injection = next(
            (each for each in self._injections if each.applies(operation, body, self._dice)), None
        )
        if injection is not None:
            return await self._struck(injection, request.transport, operation, body)
        if self.transaction_seconds and operation in WRITES:
            return await self._alone_with_its_items(operation, body)
        return self._done(operation, body)

    async def _struck(
        self,
        injection: Injection,
        transport: asyncio.Transport | None,
        operation: str,
        body: bytes,
    ) -> web.Response:
        self.struck[injection.fault] += 1
        match injection.fault:
            case Fault.UNPROCESSED:
                return self._half_done(operation, body)
            case Fault.DELAYED:
                await asyncio.sleep(injection.seconds)
                return self._done(operation, body)
            case Fault.RESET_AFTER:
                self._done(operation, body)
                return _reset(transport)
            case Fault.RESET_BEFORE:
                return _reset(transport)
            case failure:
                return failed(failure, operation, body)

    async def _alone_with_its_items(self, operation: str, body: bytes) -> web.Response:
        """What DynamoDB would answer, while other writes of the same items meet a conflict."""
        keys = _keys_written(operation, json.loads(body))
        met = [key in self._in_transactions for key in keys]
        if any(met):
            self.struck[Fault.CONFLICT] += 1
            if operation == "TransactWriteItems":
                return cancelled(["TransactionConflict" if it else "None" for it in met])
            return failed(Fault.CONFLICT, operation, body)
        if operation != "TransactWriteItems":
            return self._done(operation, body)
        self._in_transactions.update(keys)
        try:
            await asyncio.sleep(self.transaction_seconds)
            return self._done(operation, body)
        finally:
            self._in_transactions.difference_update(keys)

    def _done(self, operation: str, body: bytes) -> web.Response:
        """What DynamoDB would answer."""
        request = json.loads(body)
        if found := breaches(operation, request):
            self.refused += found
            return error(400, "ValidationException", "; ".join(found))
        # An index can be read in no other way: who does expects it.
        eventual = not request.get("ConsistentRead") and "IndexName" not in request
        if operation in {"GetItem", "Query"} and eventual:
            self.eventual_reads += 1
        # Ministack remembers a transaction with its numbers spelled anew, and takes the same one
        # for another.
        if (token := request.get("ClientRequestToken")) and self._transactions.get(token) == body:
            return plain(200, b"{}")
        if self._metered:
            status, answer = self._meter(operation, request)
        else:
            status, answer = _ministack(operation, body)
        if status == 200 and token:
            self._transactions[token] = body
        if status == 400:
            self.refused += [f"{operation}: {reason}" for reason in _refusals(json.loads(answer))]
        return plain(status, answer)

    def _meter(self, operation: str, request: dict[str, Any]) -> tuple[int, bytes]:
        metered = json.dumps(request | {"ReturnConsumedCapacity": "TOTAL"}).encode()
        status, answer = _ministack(operation, metered)
        consumed = json.loads(answer).get("ConsumedCapacity", ())
        for each in [consumed] if isinstance(consumed, dict) else consumed:
            self.units[each["TableName"], operation] += each["CapacityUnits"]
        if operation == "BatchGetItem":
            # Ministack doesn't meter it. No row that is read so has more than 4 KB: a unit each.
            for table, wanted in request["RequestItems"].items():
                self.units[table, operation] += len(wanted["Keys"])
        return status, answer

    def _half_done(self, operation: str, body: bytes) -> web.Response:
        wanted = json.loads(body)
        if operation == "BatchGetItem":
            return self._half_read(wanted)
        assert operation == "BatchWriteItem", f"{operation} has no UnprocessedItems"
        taken: dict[str, list[Any]] = {}
        left: dict[str, list[Any]] = {}
        for table, writes in wanted["RequestItems"].items():
            count = self._dice.randint(len(writes) // 2, max(len(writes) - 1, 0))
            self._dice.shuffle(writes)
            taken |= {table: writes[:count]} if count else {}
            left[table] = writes[count:]
        if taken:
            answer = self._done(operation, json.dumps(wanted | {"RequestItems": taken}).encode())
            if answer.status != 200:
                return answer
        return plain(200, json.dumps({"UnprocessedItems": left}).encode())

    def _half_read(self, request: dict[str, Any]) -> web.Response:
        ((table, table_request),) = request["RequestItems"].items()
        half = len(table_request["Keys"]) // 2
        items: list[Any] = []
        if half:
            part = {"RequestItems": {table: table_request | {"Keys": table_request["Keys"][:half]}}}
            answer = self._done("BatchGetItem", json.dumps(part).encode())
            items = json.loads(str(answer.text))["Responses"][table]
        unread = {table: table_request | {"Keys": table_request["Keys"][half:]}}
        body = json.dumps({"Responses": {table: items}, "UnprocessedKeys": unread})
        return plain(200, body.encode())


@asynccontextmanager
async def dynamodb_emulator(*, metered: bool = False) -> AsyncIterator[DynamoDBEmulator]:
    """Run one in this event loop. `metered`: it counts units."""
    emulator = DynamoDBEmulator(metered=metered)
    await emulator.start()
    try:
        yield emulator
    finally:
        await emulator.stop()


@contextmanager
def threaded_dynamodb_emulator() -> Iterator[DynamoDBEmulator]:
    """Run one in a thread, for those that wait without a loop or outlive theirs."""
    emulator = DynamoDBEmulator()
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="dynamodb", daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(emulator.start(), loop).result()
    try:
        yield emulator
    finally:
        asyncio.run_coroutine_threadsafe(emulator.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _ministack(operation: str, body: bytes) -> tuple[int, bytes]:
    """The status and the body of its answer."""
    headers = {"x-amz-target": f"DynamoDB_20120810.{operation}"}
    call = ministack.handle_request("POST", "/", headers, body, {})
    with _ONE_AT_A_TIME, _only_rows_that_match(operation, body):
        try:
            call.send(None)
        except StopIteration as done:  # a coroutine in name only: it never waits
            status, _, answer = done.value
            return status, answer if isinstance(answer, bytes) else answer.encode()
    raise AssertionError(f"{operation} waited in the middle of what must be one step")


@contextmanager
def _only_rows_that_match(operation: str, body: bytes) -> Iterator[None]:
    """Leave a partition only the rows whose key begins as a query wants, while it is answered.

    DynamoDB looks at no others. Ministack evaluates the expression for each row: 0.6 s where a
    tenant has 30,000 usage records, and its tasks look for their own rows each second.
    """
    request = json.loads(body) if operation == "Query" else {}
    table = ministack._tables.get(request.get("TableName"))
    asked = _BEGINS_WITH.match(request.get("KeyConditionExpression", ""))
    if asked is None or not table or "IndexName" in request:
        yield
        return
    key, beginning = (request["ExpressionAttributeValues"][name]["S"] for name in asked.groups())
    partitions = table["items"]
    whole = partitions.get(key, {})
    partitions[key] = {row: item for row, item in whole.items() if row.startswith(beginning)}
    try:
        yield
    finally:
        partitions[key] = whole


def _refusals(answer: dict[str, Any]) -> list[str]:
    """Why a request is wrong whatever the tables hold; empty where it is not."""
    if answer["__type"].rpartition("#")[2] in _REFUSALS:
        return [answer["message"]]
    reasons = answer.get("CancellationReasons", ())
    return [reason["Message"] for reason in reasons if reason["Code"] == "ValidationError"]


def _reset(transport: asyncio.Transport | None) -> web.Response:
    """Reset a connection. The response is only what the server wants to have; nobody gets it."""
    if transport is not None:
        # Linger on, for no time: what closes then sends RST instead of FIN.
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        transport.abort()
    return web.Response()


def _keys_written(operation: str, request: dict[str, Any]) -> list[str]:
    """The items that a transaction or a write of one item changes."""
    actions = [request]
    if operation == "TransactWriteItems":
        actions = [body for action in request["TransactItems"] for body in action.values()]
    keys = []
    for action in actions:
        table = action["TableName"]
        item = action.get("Key") or action["Item"]
        names = [each["AttributeName"] for each in ministack._tables[table]["KeySchema"]]
        keys.append(json.dumps([table, *(item[name] for name in names)]))
    return keys
