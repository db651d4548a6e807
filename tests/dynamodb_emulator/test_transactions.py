"""TransactWriteItems and TransactGetItems: all or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dynamodb_emulator.direct_client import TABLE, DirectClient, Refused, key, n, s
from tests.dynamodb_emulator.recent_tokens import LIFETIME_SECONDS


def put(sk: int, condition: str | None = None, **attributes: Any) -> dict[str, Any]:
    """A Put."""
    conditional = {"ConditionExpression": condition} if condition else {}
    return {"Put": {"TableName": TABLE, "Item": key("p", sk) | attributes, **conditional}}


def update(sk: int, expression: str = "ADD a :one", **others: Any) -> dict[str, Any]:
    """An Update."""
    values = {"ExpressionAttributeValues": {":one": n(1)}}
    return {"Update": {"TableName": TABLE, "Key": key("p", sk), "UpdateExpression": expression, **values, **others}}


def delete(sk: int, **others: Any) -> dict[str, Any]:
    """A Delete."""
    return {"Delete": {"TableName": TABLE, "Key": key("p", sk), **others}}


def check(sk: int, condition: str, **others: Any) -> dict[str, Any]:
    """A ConditionCheck."""
    return {"ConditionCheck": {"TableName": TABLE, "Key": key("p", sk), "ConditionExpression": condition, **others}}


def transact(dynamodb: DirectClient, *actions: dict[str, Any], **others: Any) -> Any:
    """Do them all, or none."""
    return dynamodb("TransactWriteItems", TransactItems=list(actions), **others)


def cancelled(dynamodb: DirectClient, *actions: dict[str, Any]) -> list[dict[str, Any]]:
    """The reasons for which none is done."""
    with pytest.raises(Refused) as refusal:
        transact(dynamodb, *actions)
    assert refusal.value.code == "TransactionCanceledException"
    reasons: list[dict[str, Any]] = refusal.value.body["CancellationReasons"]
    codes = ", ".join(reason["Code"] for reason in reasons)
    assert refusal.value.body["message"].endswith(f"cancellation reasons for specific reasons [{codes}]")
    return reasons


def test_all_are_done(dynamodb: DirectClient) -> None:
    for sk in (1, 2, 3):
        dynamodb.put("p", sk, a=n(sk))
    actions = put(4, "attribute_not_exists(pk)"), update(1), delete(2), check(3, "attribute_exists(pk)")
    assert transact(dynamodb, *actions) == {}
    assert dynamodb.query() == [1, 3, 4]
    assert dynamodb.get("p", 1) == key("p", 1) | {"a": n(2)}
    assert dynamodb.get("p", 3) == key("p", 3) | {"a": n(3)}


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        (put(9, "attribute_exists(pk)"), "ConditionalCheckFailed"),
        (put(1, "attribute_not_exists(pk)"), "ConditionalCheckFailed"),
        (update(9, ConditionExpression="attribute_exists(pk)"), "ConditionalCheckFailed"),
        (delete(9, ConditionExpression="attribute_exists(pk)"), "ConditionalCheckFailed"),
        (check(9, "attribute_exists(pk)"), "ConditionalCheckFailed"),
        (check(1, "a = b"), "ConditionalCheckFailed"),
        (update(1, "SET b = c + :one"), "ValidationError"),
        (update(1, "SET b.c = :one"), "ValidationError"),
        (update(1, "SET grp = :one"), "ValidationError"),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_or_none(dynamodb: DirectClient, failing: dict[str, Any], reason: str, place: int) -> None:
    for sk in (1, 2, 3):
        dynamodb.put("p", sk, a=n(sk))
    before = [dynamodb.get("p", sk) for sk in range(10)]
    actions = [put(4), delete(2), update(3)]
    actions.insert(place, failing)
    codes = [reason["Code"] for reason in cancelled(dynamodb, *actions)]
    assert codes == ["None"] * place + [reason] + ["None"] * (3 - place)
    assert [dynamodb.get("p", sk) for sk in range(10)] == before


def test_each_action_has_its_reason(dynamodb: DirectClient) -> None:
    dynamodb.put("p", 1, a=n(1))
    shown = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    reasons = cancelled(
        dynamodb,
        check(1, "attribute_not_exists(pk)", **shown),
        put(2),
        check(3, "attribute_exists(pk)", **shown),
    )
    failed = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
    assert reasons == [failed | {"Item": key("p", 1) | {"a": n(1)}}, {"Code": "None"}, failed]
    assert cancelled(dynamodb, put(1, "attribute_not_exists(pk)")) == [failed]


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([], "greater than or equal to 1"),
        ([put(sk) for sk in range(101)], "less than or equal to 100"),
        ([put(1), update(1)], "cannot include multiple operations on one item"),
        ([put(1), check(1, "a = b")], "cannot include multiple operations on one item"),
        ([put(2), {}], "can only contain one of Check, Put, Update or Delete"),
        ([put(1) | delete(2)], "can only contain one of"),
        ([{"Get": {"TableName": TABLE, "Key": key("p", 1)}}], "can only contain one of"),
        ([put(1), put(2, "owner = a")], "reserved keyword"),
        ([put(1), update(2, "SET sk = :one")], "Cannot update attribute sk"),
        ([put(1), put(2, a=s("x" * 409_600))], "Item size has exceeded"),
        ([put(1), delete(2, ReturnValues="ALL_OLD")], "is unknown"),
        (
            [put(1), {"ConditionCheck": {"TableName": TABLE, "Key": key("p", 2)}}],
            "Value null at 'conditionExpression'",
        ),
        ([put(1), {"Delete": {"TableName": "elsewhere", "Key": key("p", 2)}}], "ResourceNotFoundException"),
        ([put(sk, a=s("x" * 400_000)) for sk in range(11)], "exceeded the maximum of 4 MB"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_transaction(dynamodb: DirectClient, actions: list[dict[str, Any]], words: str) -> None:
    dynamodb.refused("TransactWriteItems", words, TransactItems=actions)
    assert dynamodb.query() == []


def test_a_transaction_that_is_repeated_is_done_once(dynamodb: DirectClient) -> None:
    for _ in range(3):
        transact(dynamodb, update(1), ClientRequestToken="token")
    assert dynamodb.get("p", 1) == key("p", 1) | {"a": n(1)}
    transact(dynamodb, update(1), ClientRequestToken="other token")
    transact(dynamodb, update(1))
    transact(dynamodb, update(1))
    assert dynamodb.get("p", 1) == key("p", 1) | {"a": n(4)}


def test_also_when_its_numbers_are_spelt_as_dynamodb_does_not(dynamodb: DirectClient) -> None:
    for _ in range(2):
        transact(dynamodb, put(1, a=n("1.0")), ClientRequestToken="token")


def test_a_token_is_forgotten_after_ten_minutes(dynamodb: DirectClient) -> None:
    transact(dynamodb, update(1), ClientRequestToken="token")
    dynamodb.now += LIFETIME_SECONDS - 1
    transact(dynamodb, update(1), ClientRequestToken="token")
    assert dynamodb.get("p", 1) == key("p", 1) | {"a": n(1)}
    dynamodb.now += 2
    transact(dynamodb, update(1), ClientRequestToken="token")
    assert dynamodb.get("p", 1) == key("p", 1) | {"a": n(2)}


def test_a_token_is_of_one_transaction(dynamodb: DirectClient) -> None:
    transact(dynamodb, update(1), ClientRequestToken="token")
    with pytest.raises(Refused) as refusal:
        transact(dynamodb, update(2), ClientRequestToken="token")
    assert refusal.value.code == "IdempotentParameterMismatchException"
    with pytest.raises(Refused, match="1 to 36 characters"):
        transact(dynamodb, update(1), ClientRequestToken="t" * 37)


def test_a_transaction_that_was_cancelled_may_be_repeated(dynamodb: DirectClient) -> None:
    actions = update(1), check(2, "attribute_exists(pk)")
    with pytest.raises(Refused):
        transact(dynamodb, *actions, ClientRequestToken="token")
    dynamodb.put("p", 2)
    transact(dynamodb, *actions, ClientRequestToken="token")
    assert dynamodb.get("p", 1) == key("p", 1) | {"a": n(1)}


def test_several_items_at_once(dynamodb: DirectClient) -> None:
    dynamodb.put("p", 1, a=n(1), b=n(2))
    gets = [{"Get": {"TableName": TABLE, "Key": key("p", sk)}} for sk in (1, 2)]
    gets.append({"Get": {"TableName": TABLE, "Key": key("p", 1), "ProjectionExpression": "b"}})
    answer = dynamodb("TransactGetItems", TransactItems=gets)
    assert answer == {"Responses": [{"Item": key("p", 1) | {"a": n(1), "b": n(2)}}, {}, {"Item": {"b": n(2)}}]}
    dynamodb.refused("TransactGetItems", "is a Get", TransactItems=[delete(1)])
