"""The reports of nodes, in DynamoDB: one row a node, in one partition of the table of tenants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenflow.stream_aws.attributes import seconds, text
from evenflow.stream_aws.dynamodb import Client, query_all, repeated
from evenflow.stream_aws.tables import TTL_ATTRIBUTE
from evenflow.stream_core.upstream.node_reports import KEPT_SECONDS, NodeReport

# No tenant's name has such a character, so this is no tenant's partition.
_PARTITION = "#calls"


class DynamoDBNodeReports:
    """Reports in DynamoDB (`NodeReports`).

    Args:
        client: an aiobotocore client made with `client_config`.
        table: the table of tenants.
        on_retry: called before each retry.
    """

    def __init__(self, client: Client, table: str, on_retry: Callable[[], None]) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry

    async def publish(self, report: NodeReport, now: float) -> None:
        item = {
            "tenant": text(_PARTITION),
            "row": text(report.node),
            "calls": text(report.to_text()),
            TTL_ATTRIBUTE: seconds(now + KEPT_SECONDS),
        }
        await repeated(
            lambda: self._client.put_item(TableName=self._table, Item=item), self._on_retry
        )

    async def read_all(self, now: float) -> Sequence[NodeReport]:
        request = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "tenant = :calls",
            "ExpressionAttributeValues": {":calls": text(_PARTITION)},
        }
        items = await query_all(self._client, request, self._on_retry)
        return [
            NodeReport.from_text(item["calls"]["S"])
            for item in items
            if float(item[TTL_ATTRIBUTE]["N"]) > now
        ]
