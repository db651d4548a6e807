"""The same requests to moto and to the emulator: where moto is right, both say the same."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.dynamodb_emulator.attribute_values import SET_TYPES
from tests.dynamodb_emulator.database import Database
from tests.dynamodb_emulator.random_requests import CREATE_TABLE, RandomRequests
from tests.dynamodb_emulator.service import Service
from tests.integration.aws_emulator import aws_emulator

COUNT = 400
_AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
)
_IN_ANY_ORDER = frozenset({"Scan"})


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[http.client.HTTPConnection]:
    """A connection to moto's server."""
    with aws_emulator(tmp_path_factory.mktemp("moto") / "moto.log") as running:
        yield http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)


def of_moto(connection: http.client.HTTPConnection, operation: str, request: dict[str, Any]) -> tuple[int, Any]:
    """What moto answers."""
    headers = {"X-Amz-Target": f"DynamoDB_20120810.{operation}", "Authorization": _AUTHORIZATION}
    connection.request("POST", "/", json.dumps(request), headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def of_emulator(service: Service, operation: str, request: dict[str, Any]) -> tuple[int, Any]:
    """What the emulator answers."""
    status, body = service.answer(operation, json.dumps(request).encode())
    return status, json.loads(body)


def comparable(operation: str, status: int, answer: Any) -> tuple[int, Any]:
    """An answer without what may differ: an error's wording, a number's spelling, the order of what has none."""
    if status != 200:
        return status, answer["__type"].rpartition("#")[2]
    kept = {name: _comparable(value) for name, value in answer.items() if name != "ConsumedCapacity" and value}
    if operation in _IN_ANY_ORDER and "Items" in kept:
        kept["Items"] = sorted(kept["Items"], key=str)
    return status, kept


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"N"}:
        return Decimal(value["N"])
    return {name: sorted(each) if name in SET_TYPES else _comparable(each) for name, each in sorted(value.items())}


@pytest.mark.parametrize("seed", [1, 2])
def test_both_say_the_same(moto: http.client.HTTPConnection, seed: int) -> None:
    service, requests = Service(Database()), RandomRequests(seed)
    table = f"random-{seed}"
    assert of_moto(moto, "CreateTable", CREATE_TABLE | {"TableName": table})[0] == 200
    assert of_emulator(service, "CreateTable", CREATE_TABLE | {"TableName": table})[0] == 200
    outcomes: Counter[tuple[str, Any]] = Counter()
    for _ in range(COUNT):
        operation, request = requests.next()
        request = json.loads(json.dumps(request).replace('"random"', f'"{table}"'))
        mine = comparable(operation, *of_emulator(service, operation, request))
        assert mine == comparable(operation, *of_moto(moto, operation, request)), (operation, request)
        outcomes[operation, "done" if mine[0] == 200 else mine[1]] += 1
    # Each kind of request was made, and conditions held and failed.
    for operation in ("PutItem", "UpdateItem", "DeleteItem"):
        assert outcomes[operation, "done"]
        assert outcomes[operation, "ConditionalCheckFailedException"]
    assert outcomes["TransactWriteItems", "done"]
    assert outcomes["TransactWriteItems", "TransactionCanceledException"]
    assert all(outcomes[operation, "done"] for operation in ("GetItem", "Query", "Scan", "BatchWriteItem"))
