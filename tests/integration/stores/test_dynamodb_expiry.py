"""DynamoDB deletes what has expired days later: until then it must not be seen."""

from __future__ import annotations

from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import (
    LIFETIME,
    NOW,
    chunk,
    completed,
    new_channel,
    new_message,
    new_name,
)


async def test_every_item_has_a_time_at_which_dynamodb_may_delete_it(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    channel, message = new_channel(), new_message(None)
    lease = await stores.sessions.accept(channel, message, NOW + 0.5)
    await stores.responses.renew(lease.owner, NOW + 10.25)
    leaseless = await stores.begin(new_name("task"))
    assert await stores.responses.take_over(leaseless.response_id, "b", NOW + 0.5) is not None
    assert await stores.responses.lease(leaseless.owner) is not None
    await stores.responses.append([chunk(lease, 0, ["a"], NOW + 0.75)])
    await stores.responses.finish(lease, completed(1), NOW + 300.5)
    for table in (stores.tables.sessions, stores.tables.ledger, stores.tables.responses):
        items = (await stores.client.scan(TableName=table))["Items"]
        assert items
        for item in items:
            # Another type, or a fraction, and DynamoDB keeps the item for ever.
            assert item["expires_at"].keys() == {"N"}
            assert NOW < int(item["expires_at"]["N"]) < NOW + 2 * 86_400


async def test_an_expired_message_is_forgotten_though_its_session_lives(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    channel, first = new_channel(), new_message(None)
    second = new_message(first)
    await stores.sessions.accept(channel, first, NOW)
    await stores.sessions.accept(channel, second, NOW + LIFETIME - 10)
    assert list((await stores.sessions.load(channel, NOW + LIFETIME - 5)).messages) == [
        first,
        second,
    ]
    assert list((await stores.sessions.load(channel, NOW + LIFETIME + 5)).messages) == [second]


async def test_an_expired_response_is_still_in_the_table(dynamodb_stores: DynamoDBStores) -> None:
    """Else the contract's tests of expiry would show nothing."""
    stores = dynamodb_stores
    lease = await stores.begin("a")
    await stores.responses.finish(lease, completed(0), NOW + 300)
    key = {"response_id": {"S": lease.response_id}, "position": {"S": "~head"}}
    kept = await stores.client.get_item(
        TableName=stores.tables.responses, Key=key, ConsistentRead=True
    )
    assert kept["Item"]["expires_at"] == {"N": str(int(NOW + 300))}
    assert await stores.responses.head(lease.response_id, NOW + 300) is None
