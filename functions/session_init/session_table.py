"""Writes to the sessions' table when a session is opened."""

from __future__ import annotations

from typing import Any

from evenflow.stream_aws.attributes import seconds, text
from evenflow.stream_aws.tables import SESSIONS, TTL_ATTRIBUTE
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS


class SessionTable:
    """Notes that sessions were opened.

    Args:
        client: a boto3 client of DynamoDB.
    """

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self._table = table

    def note_opened(self, channel: Channel, now: float) -> None:
        """Note when the session was first opened. A session that has a row keeps it unchanged.

        Only messages prolong a row. Otherwise a session that has expired could come back with its
        last message, if DynamoDB has not deleted it yet.

        Args:
            now: seconds since the epoch.

        Raises:
            BotoCoreError, ClientError: DynamoDB did not take it.
        """
        self._client.update_item(
            TableName=self._table,
            Key={SESSIONS.partition: text(str(channel))},
            UpdateExpression=(
                "SET created_at = if_not_exists(created_at, :now), #ttl = if_not_exists(#ttl, :ttl)"
            ),
            ExpressionAttributeNames={"#ttl": TTL_ATTRIBUTE},
            ExpressionAttributeValues={
                ":now": seconds(now),
                ":ttl": seconds(now + LIFETIME_SECONDS),
            },
        )
