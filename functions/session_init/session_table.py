"""The sessions' table, as far as opening a session needs it."""

from __future__ import annotations

from typing import Any

from stream_aws.attributes import seconds, text
from stream_aws.tables import SESSIONS, TTL_ATTRIBUTE
from stream_core.policy.channel import Channel
from stream_core.ports.response_store import LIFETIME_SECONDS


class SessionTable:
    """Notes that sessions were opened.

    Args:
        client: a DynamoDB client of boto3.
    """

    def __init__(self, client: Any, table: str) -> None:
        self._client = client
        self._table = table

    def note_opened(self, channel: Channel, now: float) -> None:
        """Write when the session was first opened; a session that has a row keeps it as it is.

        Only messages prolong a row. Were it done here, a session that has expired, but that DynamoDB has not deleted
        yet, would come back to life with its last message, and one that it has deleted would not.

        Args:
            now: seconds since the epoch.

        Raises:
            BotoCoreError, ClientError: DynamoDB did not take it.
        """
        self._client.update_item(
            TableName=self._table,
            Key={SESSIONS.partition: text(str(channel))},
            UpdateExpression="SET created_at = if_not_exists(created_at, :now), #ttl = if_not_exists(#ttl, :ttl)",
            ExpressionAttributeNames={"#ttl": TTL_ATTRIBUTE},
            ExpressionAttributeValues={":now": seconds(now), ":ttl": seconds(now + LIFETIME_SECONDS)},
        )
