"""What the stores rely on in DynamoDB, after its developer guide, and what its emulator does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from evenflow.stream_aws.dynamodb import cancellation_reasons, error_code
from tests.integration.dynamodb_emulator import DynamoDBEmulator, threaded_dynamodb_emulator
from tests.integration.stores.stores import new_name

Item = dict[str, Any]
Call = Callable[..., dict[str, Any]]

TABLE = "contract-responses"
ANY = {"S": "a value"}
NUMBER = {"N": "1"}


@pytest.fixture(scope="session")
def emulator() -> Iterator[DynamoDBEmulator]:
    """One for the process, whose emulators have the same tables."""
    with threaded_dynamodb_emulator() as running:
        running.create_tables("contract")
        yield running


@pytest.fixture
def call(emulator: DynamoDBEmulator) -> Iterator[Call]:
    """Makes a call of the SDK on the table of responses."""
    client = emulator.client()

    def call(operation: str, **request: Any) -> dict[str, Any]:
        table = {} if operation.startswith(("batch", "transact")) else {"TableName": TABLE}
        answer: dict[str, Any] = getattr(client, operation)(**table | request)
        return answer

    yield call
    emulator.refused.clear()
    client.close()


def key(position: str = "1", response_id: str = "r") -> Item:
    return {"response_id": {"S": response_id}, "position": {"S": position}}


def put(position: str = "1", **attributes: Item) -> Item:
    return {"Item": key(position) | attributes}


def batch(*writes: Item) -> Item:
    return {"RequestItems": {TABLE: list(writes)}}


def put_request(position: str = "1", **attributes: Item) -> Item:
    return {"PutRequest": put(position, **attributes)}


def update(expression: str, *values: str, **further: Any) -> Item:
    given = {"ExpressionAttributeValues": dict.fromkeys(values, NUMBER)} if values else {}
    return {"Key": key(), "UpdateExpression": expression, **given, **further}


def query(condition: str, **further: Any) -> Item:
    names = {"ExpressionAttributeNames": {"#p": "position"}} if "#p" in condition else {}
    values = {":r": {"S": "r"}} | ({":p": {"S": "1"}} if ":p" in condition else {})
    return {
        "KeyConditionExpression": condition,
        **names,
        "ExpressionAttributeValues": values,
        **further,
    }


def among(count: int) -> Item:
    values = {f":v{number}": NUMBER for number in range(count)}
    condition = f"attribute_not_exists(z) OR z IN ({', '.join(values)})"
    return {"Key": key(), "ConditionExpression": condition, "ExpressionAttributeValues": values}


def transaction(*actions: Item, **further: Any) -> Item:
    return {"TransactItems": list(actions), **further}


def check(condition: str = "attribute_exists(response_id)", position: str = "1") -> Item:
    return {
        "ConditionCheck": {
            "TableName": TABLE,
            "Key": key(position),
            "ConditionExpression": condition,
        }
    }


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        (
            "put_item",
            put(
                e={"S": ""},
                n={"N": "1800000000.25"},
                m={"M": {"1": {"N": "0"}}},
                s={"SS": ["a", "b"]},
            ),
        ),
        ("put_item", put(e={"S": "x" * 409_500})),
        ("update_item", update("SET a = :a, b = if_not_exists(b, :a) REMOVE c ADD d :a", ":a")),
        ("query", query("response_id = :r AND #p BETWEEN :p AND :p")),
        ("query", query("response_id = :r AND begins_with(#p, :p)")),
        ("delete_item", among(100)),
        (
            "batch_write_item",
            batch(*(put_request(str(number), e={"S": "x" * 400_000}) for number in range(25))),
        ),
        (
            "transact_write_items",
            transaction(check("attribute_not_exists(z)", "2"), ClientRequestToken="t" * 36),
        ),
    ],
)
def test_what_it_takes(
    call: Call, emulator: DynamoDBEmulator, operation: str, request_: Item
) -> None:
    call(operation, **request_)
    assert emulator.refused == []


REFUSED = [
    # The provided key element does not match the schema
    ("get_item", {"Key": {"response_id": {"S": "r"}}}, "does not match the schema"),
    ("get_item", {"Key": key() | {"position": {"N": "1"}}}, "does not match the schema"),
    ("put_item", {"Item": {"response_id": {"S": "r"}}}, "Missing the key position"),
    # Key attribute values: 1 byte to 2048 bytes, sort keys to 1024 bytes
    ("get_item", {"Key": key("")}, "empty string value"),
    ("get_item", {"Key": key("é" * 513)}, "1024 bytes"),
    # The maximum item size in DynamoDB is 400 KB
    ("put_item", put(e={"S": "x" * 410_000}), "Item size"),
    ("batch_write_item", batch(put_request(e={"S": "x" * 410_000})), "Item size"),
    # An attribute value has exactly one data type; numbers are sent as strings of at most 38 digits
    ("put_item", put(e={"N": 1}), "numeric value"),
    ("put_item", put(e={"N": "nan"}), "numeric value"),
    ("put_item", put(e={"N": "1" * 39}), "38 significant digits"),
    ("put_item", put(e={"S": None}), "exactly one"),
    ("put_item", put(e={"S": "x", "N": "1"}), "exactly one"),
    ("put_item", put(e={"BOOL": "true"}), "true or false"),
    ("put_item", put(e={"SS": []}), "may not be empty"),
    ("put_item", put(e={"SS": ["a", "a"]}), "duplicates"),
    # Secondary index keys can't be empty strings, and have the type of their definition
    ("put_item", put(running={"S": ""}), "secondary index key"),
    ("put_item", put(running={"N": "1"}), "Index Key running"),
    # Reserved words can't be used as attribute names in expressions
    ("update_item", update("SET owner = :a", ":a"), "reserved keyword: owner"),
    (
        "update_item",
        update("SET a = :a", ":a", ConditionExpression="a = owner"),
        "reserved keyword: owner",
    ),
    # If an attribute name begins with a number, use an expression attribute name
    ("update_item", update("SET starts.2 = :a", ":a"), "Syntax error"),
    (
        "delete_item",
        {"Key": key(), "ConditionExpression": "attribute_exists(starts.2)"},
        "begins with a digit",
    ),
    # Value provided in ExpressionAttributeValues unused in expressions
    ("update_item", update("SET a = :a", ":a", ":b"), "unused"),
    ("update_item", update("SET a = :a", ":a", ExpressionAttributeNames={"#x": "x"}), "unused"),
    ("update_item", update("SET a = :b", ":a"), ":[ab]"),
    ("update_item", update("REMOVE a", ExpressionAttributeNames={}), "must not be empty"),
    # You can't update the primary key; two document paths overlap; each clause once
    (
        "update_item",
        update("REMOVE #p", ExpressionAttributeNames={"#p": "position"}),
        "part of the key",
    ),
    ("update_item", update("REMOVE a, a.b"), "overlap"),
    ("update_item", update("SET a = list_append(a, :a), b = :a REMOVE a", ":a"), "overlap"),
    ("update_item", update("SET a = :a SET b = :a", ":a"), "each clause once"),
    ("update_item", update("SET a == :a", ":a"), "Syntax error"),
    # ADD can be used on top-level attributes only
    ("update_item", update("ADD a.b :a", ":a"), "top-level"),
    # The maximum length of any expression string is 4 KB; IN takes up to 100 values
    (
        "update_item",
        update("SET " + ", ".join(f"attribute{n} = :a" for n in range(400)), ":a"),
        "size",
    ),
    ("delete_item", among(101), "up to 100"),
    # The partition key has an equality condition; the sort key has one condition, of few operators
    ("query", query("#p = :p AND response_id > :r"), "response_id"),
    ("query", query("response_id = :r AND epoch = :p"), "epoch"),
    ("query", query("response_id = :r AND #p > :p AND #p < :p"), "one condition per key"),
    ("query", query("response_id = :r OR #p > :p"), "BETWEEN"),
    ("query", query("response_id = :r AND #p <> :p"), "BETWEEN"),
    ("query", query("response_id = :r AND contains(#p, :p)"), "BETWEEN"),
    ("query", query("response_id = :r", IndexName="by-agent"), "specified index"),
    ("query", query("running = :r", IndexName="by-owner", ConsistentRead=True), "Consistent reads"),
    # 25 requests a batch, no two of them on one item
    ("batch_write_item", batch(*(put_request(str(number)) for number in range(26))), "25"),
    ("batch_write_item", batch(put_request(), {"DeleteRequest": {"Key": key()}}), "duplicates"),
    (
        "batch_write_item",
        batch(put_request() | {"DeleteRequest": {"Key": key("2")}}),
        "one PutRequest",
    ),
    # Up to 100 actions, of at most 4 MB together, each on another item
    ("transact_write_items", transaction(), "greater than or equal to 1"),
    ("transact_write_items", transaction(check(), check()), "multiple operations on one item"),
    (
        "transact_write_items",
        transaction(check() | {"Put": put("2") | {"TableName": TABLE}}),
        "is one operation",
    ),
    (
        "transact_write_items",
        transaction({"ConditionCheck": {"TableName": TABLE, "Key": key()}}),
        "has no ConditionExpression",
    ),
    ("transact_write_items", transaction(check(), ClientRequestToken="t" * 37), "36"),
    ("transact_write_items", transaction(check(), ClientRequestToken=""), "36 characters"),
    (
        "transact_write_items",
        transaction(
            *(
                {"Put": put(str(n), e={"S": "x" * 400_000}) | {"TableName": TABLE}}
                for n in range(11)
            )
        ),
        "4MB",
    ),
]


@pytest.mark.parametrize(("operation", "request_", "words"), REFUSED)
def test_what_it_refuses(
    call: Call, emulator: DynamoDBEmulator, operation: str, request_: Item, words: str
) -> None:
    with pytest.raises(ClientError, match=words) as refusal:
        call(operation, **request_)
    assert error_code(refusal.value) == "ValidationException"
    assert len(emulator.refused) == 1


def test_a_write_is_done_if_its_condition_holds_and_else_shows_what_stood_in_the_way(
    call: Call,
) -> None:
    response_id = new_name("response")
    first = key(response_id=response_id) | {"owner": {"S": "a"}}
    only_new = {"ConditionExpression": "attribute_not_exists(response_id)"}
    call("put_item", Item=first, **only_new)
    with pytest.raises(ClientError) as failure:
        call(
            "put_item",
            Item=first | {"owner": ANY},
            **only_new,
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    assert error_code(failure.value) == "ConditionalCheckFailedException"
    assert failure.value.response["Item"] == first
    assert call("get_item", Key=key(response_id=response_id), ConsistentRead=True)["Item"] == first


def test_a_comparison_with_what_is_not_there_or_has_another_type_is_false(call: Call) -> None:
    call("put_item", **put(word=ANY))
    # But for <>, which is true of what is not there.
    for condition in ("nothing < :one", "nothing = :one", "word > :one", "NOT nothing <> :one"):
        with pytest.raises(ClientError, match="conditional request failed"):
            call(
                "delete_item",
                Key=key(),
                ConditionExpression=condition,
                ExpressionAttributeValues={":one": NUMBER},
            )


def test_an_update_returns_all_new_attributes_and_counts_and_adds_to_sets(call: Call) -> None:
    values = {":one": NUMBER, ":by": {"SS": ["b"]}}
    call("put_item", **put(polls={"N": "41"}, by={"SS": ["a", "b"]}, starts={"M": {}}))
    changed = call(
        "update_item",
        Key=key(),
        UpdateExpression="SET starts.#e = :one REMOVE gone ADD polls :one, #by :by",
        ExpressionAttributeNames={"#e": "2", "#by": "by"},
        ExpressionAttributeValues=values,
        ReturnValues="ALL_NEW",
    )["Attributes"]
    assert sorted(changed["by"]["SS"]) == ["a", "b"]
    assert (changed["polls"], changed["starts"]) == ({"N": "42"}, {"M": {"2": NUMBER}})
    with pytest.raises(ClientError, match="document path"):
        call("update_item", **update("SET nothing.x = :a", ":a"))


def test_a_transaction_is_done_whole_or_not_at_all_and_says_of_each_action_why(call: Call) -> None:
    absent, present = new_name("position"), new_name("position")
    call("put_item", **put(present))
    only_new = {"TableName": TABLE, "ConditionExpression": "attribute_not_exists(response_id)"}
    actions = [
        {"Put": put(absent) | only_new},
        {
            "Put": put(present, e=ANY)
            | only_new
            | {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        },
        check("attribute_exists(response_id)", new_name("position")),
    ]
    with pytest.raises(ClientError) as failure:
        call("transact_write_items", TransactItems=actions)
    assert cancellation_reasons(failure.value) == [
        "None",
        "ConditionalCheckFailed",
        "ConditionalCheckFailed",
    ]
    assert [reason.get("Item") for reason in failure.value.response["CancellationReasons"]] == [
        None,
        key(present),
        None,
    ]
    assert "Item" not in call("get_item", Key=key(absent))


def test_a_transaction_with_the_token_of_one_that_was_done_is_not_done_again(call: Call) -> None:
    position, token = new_name("position"), new_name("token")
    # No canonical spelling: the emulator must not take its own for another request.
    action = {"Put": put(position, number={"N": "1.50"}) | {"TableName": TABLE}}
    once = transaction(action, ClientRequestToken=token)
    call("transact_write_items", **once)
    call("delete_item", Key=key(position))
    call("transact_write_items", **once)
    assert "Item" not in call("get_item", Key=key(position))
    other = {"Put": put(position, number=NUMBER) | {"TableName": TABLE}}
    with pytest.raises(ClientError) as failure:
        call("transact_write_items", TransactItems=[other], ClientRequestToken=token)
    assert error_code(failure.value) == "IdempotentParameterMismatchException"


def test_a_query_is_in_the_order_of_the_sort_keys_bytes_and_both_its_bounds_count(
    call: Call,
) -> None:
    response_id = new_name("response")
    positions = ["0", "1", "10", "2", "~head", "é"]
    for position in reversed(positions):
        call("put_item", Item=key(position, response_id))
    request = query("response_id = :r AND #p BETWEEN :p AND :q") | {
        "ExpressionAttributeValues": {
            ":r": {"S": response_id},
            ":p": {"S": "1"},
            ":q": {"S": "~head"},
        }
    }
    found = [item["position"]["S"] for item in call("query", **request)["Items"]]
    assert found == ["1", "10", "2", "~head"]
    backwards = call("query", **request, ScanIndexForward=False, Limit=2)
    assert [item["position"]["S"] for item in backwards["Items"]] == ["~head", "2"]
    assert backwards["LastEvaluatedKey"] == key("2", response_id)


def test_a_query_reads_up_to_a_megabyte_and_says_where_to_go_on(call: Call) -> None:
    response_id = new_name("response")
    for position in "123":
        call("put_item", Item=key(position, response_id) | {"e": {"S": "x" * 400_000}})
    request = query("response_id = :r") | {"ExpressionAttributeValues": {":r": {"S": response_id}}}
    first = call("query", **request)
    rest = call("query", **request, ExclusiveStartKey=first["LastEvaluatedKey"])
    found = [[item["position"]["S"] for item in page["Items"]] for page in (first, rest)]
    assert [position for page in found for position in page] == ["1", "2", "3"]
    assert 0 < len(found[0]) < 3
    assert "LastEvaluatedKey" not in rest


def test_an_index_has_the_keys_of_the_items_that_have_its_attribute(call: Call) -> None:
    owner = new_name("task")
    call("put_item", **put("with", running={"S": owner}, e=ANY))
    call("put_item", **put("without", e=ANY))
    request = {
        "IndexName": "by-owner",
        "KeyConditionExpression": "running = :o",
        "ExpressionAttributeValues": {":o": {"S": owner}},
    }
    assert call("query", **request)["Items"] == [key("with") | {"running": {"S": owner}}]
    call("update_item", Key=key("with"), UpdateExpression="REMOVE running")
    assert call("query", **request)["Items"] == []
