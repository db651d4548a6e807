from __future__ import annotations

from evenflow.stream_aws.response_items import claim


def named(request: dict[str, dict[str, dict[str, str]]]) -> set[str]:
    values = request["ExpressionAttributeValues"]
    return {value["S"] for placeholder, value in values.items() if placeholder.startswith(":lost")}


def test_a_claim_names_the_owners_that_were_lost() -> None:
    request = claim("test-responses", "r", "me", {"a", "b", "c"}, 1.5)
    assert named(request) == {"a", "b", "c"}


def test_a_claim_names_no_more_of_them_than_dynamodb_takes() -> None:
    request = claim("test-responses", "r", "me", {f"task-{number}" for number in range(150)}, 1.5)
    assert len(named(request)) == 100
