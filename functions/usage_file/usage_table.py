"""The tenants, and the usage records of a day, as the table has them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from evenflow.stream_aws.attributes import Item
from evenflow.stream_aws.tenant_items import read_records, records_request
from evenflow.stream_aws.usage_items import (
    first_of_records,
    record_in,
    rows_beginning,
    usage_partitions,
)

# Per partition; together some 3 MB in memory.
_PAGE_ROWS = 500
# To apply the rest of a transaction takes DynamoDB milliseconds.
_MOST_LOOKS = 5


class TenantsUnreadable(Exception):
    """The table has shown half of a change of the tenants' records, several times."""


class UsageTable:
    """The table of tenants, read page by page.

    Args:
        client: a boto3 client of DynamoDB.
    """

    def __init__(self, client: Any, table: str) -> None:
        self._query = client.get_paginator("query")
        self._table = table

    def tenants(self) -> list[str]:
        """Those that have a record.

        Raises:
            TenantsUnreadable: others change records all the time.
        """
        for _ in range(_MOST_LOOKS):
            pages = self._query.paginate(**records_request(self._table))
            stored = read_records(pages.build_full_result()["Items"])
            if stored is not None:
                return [record.id for record in stored.records]
        raise TenantsUnreadable("others change tenants all the time; try again")

    def lines(self, tenants: Iterable[str], day: str) -> Iterator[bytes]:
        """The lines of a day's file, a page of each partition of a tenant in memory.

        Reads are eventually consistent, at half the cost for the tenant's partitions: records are a
        quarter of an hour old.

        Args:
            tenants: in their order.
        """
        for tenant in tenants:
            parts = [self._records(each, day) for each in usage_partitions(tenant)]
            for item in heapq.merge(*parts, key=lambda item: str(item["row"]["S"])):
                yield record_in(item).to_line()

    def _records(self, partition: str, day: str) -> Iterator[Item]:
        request = rows_beginning(self._table, partition, first_of_records(day))
        request["ExpressionAttributeNames"]["#record"] = "record"
        pages = self._query.paginate(
            **request,
            ProjectionExpression="#row, #record",
            PaginationConfig={"PageSize": _PAGE_ROWS},
        )
        return (item for page in pages for item in page["Items"])
