"""The emulator without a wire: what tests of its rules call."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.dynamodb_emulator.attribute_values import Item, Value
from tests.dynamodb_emulator.database import Database
from tests.dynamodb_emulator.faults import Faults
from tests.dynamodb_emulator.service import Service

TABLE = "items"
CREATE_TABLE: dict[str, Any] = {
    "TableName": TABLE,
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": kind} for name, kind in (("pk", "S"), ("sk", "N"), ("grp", "S"))
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": f"{kind.lower()}-by-group",
            "KeySchema": [{"AttributeName": "grp", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": kind},
        }
        for kind in ("ALL", "KEYS_ONLY")
    ],
}


class Refused(Exception):
    """What the emulator did not do."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(f"{body['__type']}: {body['message']}")
        self.code = body["__type"].rpartition("#")[2]
        self.body = body


class DirectClient:
    """Calls the emulator, whose clock goes when a test says so. It has one table, with a text and a number as its key."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.service = Service(Database(lambda: self.now))
        self("CreateTable", **CREATE_TABLE)

    def __call__(self, operation: str, **request: Any) -> Any:
        """Make a call."""
        status, body = self.service.answer(operation, orjson.dumps(request))
        answer = orjson.loads(body)
        if status != 200:
            raise Refused(answer)
        return answer

    def refused(self, operation: str, words: str, **request: Any) -> Refused:
        """Make a call that is refused, with these words in the message or the name of the error."""
        with pytest.raises(Refused) as refusal:
            self(operation, **request)
        assert words in str(refusal.value)
        return refusal.value

    def inject(self, **faults: Any) -> None:
        """Put faults in force."""
        self.service.database.faults.inject(Faults(**faults))

    def put(self, pk: str, sk: int, **attributes: Value) -> None:
        """Write an item."""
        self("PutItem", TableName=TABLE, Item=key(pk, sk) | attributes)

    def get(self, pk: str, sk: int) -> Item | None:
        """Read one."""
        found: Item | None = self("GetItem", TableName=TABLE, Key=key(pk, sk)).get("Item")
        return found

    def update(self, expression: str, **request: Any) -> Item:
        """Update the item ("p", 1); returns it."""
        request = {"ReturnValues": "ALL_NEW"} | request
        answer = self("UpdateItem", TableName=TABLE, Key=key("p", 1), UpdateExpression=expression, **request)
        updated: Item = answer.get("Attributes", {})
        return updated

    def query(self, condition: str = "pk = :p", **request: Any) -> list[int]:
        """The sort keys of a query's items; `:p` is "p" unless values are given."""
        request = {"ExpressionAttributeValues": {":p": s("p")}} | request
        answer = self("Query", TableName=TABLE, KeyConditionExpression=condition, **request)
        return [int(item["sk"]["N"]) for item in answer["Items"]]


def s(text: str) -> Value:
    """A text."""
    return {"S": text}


def n(number: float | str) -> Value:
    """A number."""
    return {"N": str(number)}


def key(pk: str, sk: int) -> Item:
    """A key of the table."""
    return {"pk": s(pk), "sk": n(sk)}
