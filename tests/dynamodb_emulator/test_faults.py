"""What goes wrong on command: throttling, delays, and nobody there."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.dynamodb_emulator.direct_client import CREATE_TABLE, TABLE, DirectClient, Refused, key
from tests.dynamodb_emulator.process import DynamoDBEmulator

THROTTLED = "ProvisionedThroughputExceededException"


def outcomes(dynamodb: DirectClient, operation: str, request: dict[str, Any], count: int = 200) -> Counter[str]:
    """What becomes of so many requests."""
    found: Counter[str] = Counter()
    for _ in range(count):
        try:
            dynamodb(operation, **request)
        except Refused as refused:
            found[refused.code] += 1
        else:
            found["done"] += 1
    return found


# -- throttling --------------------------------------------------------------------------------------------------


def test_a_share_of_requests_is_throttled(dynamodb: DirectClient) -> None:
    get = {"TableName": TABLE, "Key": key("p", 1)}
    assert outcomes(dynamodb, "GetItem", get) == {"done": 200}
    dynamodb.inject(throttled_share=0.3)
    found = outcomes(dynamodb, "GetItem", get)
    assert found.keys() == {"done", THROTTLED}
    assert 30 < found[THROTTLED] < 90  # the dice are the same every time
    assert outcomes(dynamodb, "DescribeTable", {"TableName": TABLE}) == {"done": 200}
    dynamodb.inject(throttled_share=1.0)
    assert outcomes(dynamodb, "GetItem", get) == {THROTTLED: 200}
    dynamodb.inject()
    assert outcomes(dynamodb, "GetItem", get) == {"done": 200}


def test_only_some_operations_are_throttled(dynamodb: DirectClient) -> None:
    dynamodb.inject(throttled_share=1.0, throttled_operations=frozenset({"PutItem", "Query"}))
    assert outcomes(dynamodb, "PutItem", {"TableName": TABLE, "Item": key("p", 1)}) == {THROTTLED: 200}
    assert outcomes(dynamodb, "GetItem", {"TableName": TABLE, "Key": key("p", 1)}) == {"done": 200}
    assert dynamodb.get("p", 1) is None  # what is throttled is not done


def test_of_a_batch_some_is_not_processed(dynamodb: DirectClient) -> None:
    for seed in range(20):
        writes = [{"PutRequest": {"Item": key("p", 25 * seed + sk)}} for sk in range(25)]
        before = keys_without_faults(dynamodb)
        dynamodb.inject(throttled_share=1.0, seed=seed)
        try:
            left = dynamodb("BatchWriteItem", RequestItems={TABLE: writes})["UnprocessedItems"][TABLE]
        except Refused as refused:
            if refused.code != THROTTLED:
                raise
            left = writes  # nothing of it could be processed
        assert 0 < len(left) <= 25
        assert all(write in writes for write in left)
        done = [int(write["PutRequest"]["Item"]["sk"]["N"]) for write in writes if write not in left]
        assert keys_without_faults(dynamodb) == [*before, *done]
    assert 100 < len(keys_without_faults(dynamodb)) < 400  # the dice are the same every time


def keys_without_faults(dynamodb: DirectClient) -> list[int]:
    """The sort keys in "p", read without a fault."""
    dynamodb.inject()
    return dynamodb.query()


def test_of_a_batch_of_keys_some_is_not_processed(dynamodb: DirectClient) -> None:
    for sk in range(20):
        dynamodb.put("p", sk)
    dynamodb.inject(throttled_share=1.0, seed=1)
    wanted = {TABLE: {"Keys": [key("p", sk) for sk in range(20)], "ConsistentRead": True}}
    answer = dynamodb("BatchGetItem", RequestItems=wanted)
    left = answer["UnprocessedKeys"][TABLE]
    assert 0 < len(left["Keys"]) < 20
    assert left["ConsistentRead"]
    found = [*left["Keys"], *answer["Responses"][TABLE]]
    assert sorted(int(each["sk"]["N"]) for each in found) == list(range(20))
    single = {TABLE: {"Keys": [key("p", 1)]}}
    assert outcomes(dynamodb, "BatchGetItem", {"RequestItems": single}) == {THROTTLED: 200}


def test_a_transaction_is_throttled_whole(dynamodb: DirectClient) -> None:
    dynamodb.inject(throttled_share=1.0)
    puts = [{"Put": {"TableName": TABLE, "Item": key("p", sk)}} for sk in range(2)]
    with pytest.raises(Refused) as refusal:
        dynamodb("TransactWriteItems", TransactItems=puts)
    assert refusal.value.code == "TransactionCanceledException"
    codes = [reason["Code"] for reason in refusal.value.body["CancellationReasons"]]
    assert codes == ["ProvisionedThroughputExceeded", "None"]
    assert keys_without_faults(dynamodb) == []


# -- over the wire -----------------------------------------------------------------------------------------------


@pytest.fixture
def table(emulator: DynamoDBEmulator) -> str:
    """A table of the running emulator, empty."""
    client = emulator.client("dynamodb")
    if TABLE in client.list_tables()["TableNames"]:
        client.delete_table(TableName=TABLE)
    client.create_table(**CREATE_TABLE)
    return TABLE


Connect = Callable[[], http.client.HTTPConnection]


@pytest.fixture
def connect(emulator: DynamoDBEmulator) -> Iterator[Connect]:
    """Make connections, which give up after 10 s."""
    with ExitStack() as stack:

        def connect() -> http.client.HTTPConnection:
            connection = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=10)
            stack.callback(connection.close)
            return connection

        yield connect


def send(connection: http.client.HTTPConnection, operation: str, request: dict[str, Any]) -> None:
    """Send a request."""
    connection.request("POST", "/", json.dumps(request), {"X-Amz-Target": f"DynamoDB_20120810.{operation}"})


def ask(connection: http.client.HTTPConnection, operation: str, request: dict[str, Any]) -> Any:
    """Send a request; returns what the answer holds."""
    send(connection, operation, request)
    return json.loads(connection.getresponse().read())


def ask_when_there(connect: Connect, operation: str, request: dict[str, Any]) -> Any:
    """Ask until somebody is there; returns what the answer holds."""
    give_up_at = time.monotonic() + 20
    while True:
        try:
            return ask(connect(), operation, request)
        except ConnectionError:
            assert time.monotonic() < give_up_at, "nobody came back"
            time.sleep(0.02)


def test_answers_come_later(emulator: DynamoDBEmulator, table: str, connect: Connect) -> None:
    connection = connect()
    emulator.set_faults(delay_ms=120)
    began = time.monotonic()
    for _ in range(2):
        assert ask(connection, "GetItem", {"TableName": table, "Key": key("p", 1)}) == {}
    assert time.monotonic() - began >= 0.24


def test_what_is_answered_late_was_done_at_once(emulator: DynamoDBEmulator, table: str, connect: Connect) -> None:
    late, prompt = connect(), connect()
    emulator.set_faults(delay_ms=60_000)
    before = emulator.counts()
    send(late, "PutItem", {"TableName": table, "Item": key("p", 1)})
    while emulator.counts()["PutItem"] == before["PutItem"]:
        time.sleep(0.01)
    emulator.set_faults()
    assert ask(prompt, "GetItem", {"TableName": table, "Key": key("p", 1)}) == {"Item": key("p", 1)}


def test_nobody_is_there_for_a_while(emulator: DynamoDBEmulator, table: str, connect: Connect) -> None:
    get = {"TableName": table, "Key": key("p", 1)}
    idle, fresh = connect(), connect()
    assert ask(idle, "GetItem", get) == {}
    emulator.set_faults(unreachable_seconds=60)
    with pytest.raises((ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected)):
        ask(idle, "GetItem", get)
    with pytest.raises(ConnectionResetError):
        ask(fresh, "GetItem", get)
    before = emulator.counts()  # commands are answered all the same
    emulator.set_faults()
    assert ask(connect(), "GetItem", get) == {}
    assert emulator.counts()["GetItem"] == before["GetItem"] + 1


def test_who_waits_for_an_answer_is_reset_too(emulator: DynamoDBEmulator, table: str, connect: Connect) -> None:
    waiting = connect()
    emulator.set_faults(delay_ms=60_000)
    before = emulator.counts()
    send(waiting, "PutItem", {"TableName": table, "Item": key("p", 7)})
    while emulator.counts()["PutItem"] == before["PutItem"]:
        time.sleep(0.01)
    emulator.set_faults(unreachable_seconds=0.05)
    with pytest.raises(ConnectionResetError):
        waiting.getresponse()
    get = {"TableName": table, "Key": key("p", 7)}
    assert ask_when_there(connect, "GetItem", get) == {"Item": key("p", 7)}  # done, and nobody knows


@pytest.mark.parametrize(
    "faults",
    [
        {"throttled_share": 1.5},
        {"throttled_share": "0.3"},
        {"throtled_share": 0.3},
        {"delay_ms": -1},
        {"throttled_operations": ["GetItems"]},
    ],
    ids=str,
)
def test_a_fault_that_is_none_is_refused(emulator: DynamoDBEmulator, faults: dict[str, Any]) -> None:
    emulator.set_faults(delay_ms=1, throttled_operations=["GetItem"])
    with pytest.raises(urllib.error.HTTPError, match="400"):
        emulator.set_faults(**faults)
    with urllib.request.urlopen(f"{emulator.endpoint}/_faults") as answer:
        in_force = json.load(answer)
    assert (in_force["delay_ms"], in_force["throttled_operations"]) == (1, ["GetItem"])


def test_calls_are_counted(emulator: DynamoDBEmulator, table: str, connect: Connect) -> None:
    connection = connect()
    before = emulator.counts()
    emulator.set_faults(throttled_share=1.0)
    for _ in range(3):
        assert THROTTLED in ask(connection, "Scan", {"TableName": table})["__type"]
    assert emulator.counts() - before == Counter({"Scan": 3})
