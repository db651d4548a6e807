"""The days that need a file of usage, and their records in the table."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, date, datetime
from typing import Any

from aws_lambda_powertools import Logger

from evenflow.functions.usage_file.usage_bucket import UsageBucket
from evenflow.stream_aws.attributes import Item
from evenflow.stream_aws.tenant_items import read_records, records_request
from evenflow.stream_aws.usage_items import (
    first_of_records,
    record_in,
    rows_beginning,
    usage_partitions,
)
from evenflow.stream_core.tenants.budget import day_of
from evenflow.stream_core.tenants.usage import LATE_SECONDS

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
        """The tenants that have a record.

        Raises:
            TenantsUnreadable: concurrent changes of records did not stop.
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
            tenants: in the order of the lines.
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


MOST_DAYS = 7
"""How far back a missing file is written."""

_DAY_SECONDS = 86_400.0


class FilesMissing(Exception):
    """Some files could not be written. The message says which days'."""


class DailyFiles:
    """Writes a file for each day of UTC that has ended.

    A file is made of the records in the table, and takes its name when it is whole. So it has each
    record once, and the same bytes when it is made again.

    Args:
        secret_tenants: the tenants with a key in the secret. Tenants with a record are added.
        kept_seconds: how long the table keeps records.
    """

    def __init__(
        self,
        table: UsageTable,
        bucket: UsageBucket,
        *,
        secret_tenants: Callable[[], Iterable[str]],
        kept_seconds: float,
        logger: Logger,
    ) -> None:
        self._table = table
        self._bucket = bucket
        self._secret_tenants = secret_tenants
        self._kept_seconds = kept_seconds
        self._logger = logger

    def write_missing(self, now: float) -> None:
        """Write the missing files of the last days, the newest first.

        A file that takes all of a call's time delays only older ones.

        Args:
            now: seconds since the epoch.

        Raises:
            FilesMissing: some could not be written. The others were.
        """
        due = days_due(now, self._kept_seconds)
        there = self._bucket.days(due[-1]) if due else frozenset()
        self._write([day for day in due if day not in there])

    def rewrite(self, day_text: str, now: float) -> None:
        """Write the file of a day, and replace an existing one.

        Raises:
            ValueError: it is no day, it has not ended, or some of its records are forgotten.
            FilesMissing: it could not be written.
        """
        day = date.fromisoformat(day_text).isoformat()
        if not is_whole(day, now, self._kept_seconds):
            raise ValueError(
                f"{day} was not written: it must have ended {LATE_SECONDS:.0f} s ago, and none of "
                "its records may be forgotten"
            )
        self._write([day])

    def _write(self, days: Collection[str]) -> None:
        if not days:
            return
        tenants = sorted({*self._table.tenants(), *self._secret_tenants()})
        failed: list[str] = []
        for day in days:
            try:
                written = self._bucket.put(day, self._table.lines(tenants, day))
            except Exception:  # the other days are written all the same
                failed.append(day)
                self._logger.exception(
                    "the usage of a day could not be written; it is tried again", extra={"day": day}
                )
            else:
                self._logger.info("the usage of a day is written", extra=written._asdict())
        if failed:
            raise FilesMissing(f"the usage of {', '.join(failed)} is not written")


def days_due(now: float, kept_seconds: float) -> list[str]:
    """The days of which there should be a file, the newest first."""
    days = (day_of(now - number * _DAY_SECONDS) for number in range(1, MOST_DAYS + 2))
    return [day for day in days if is_whole(day, now, kept_seconds)][:MOST_DAYS]


def is_whole(day: str, now: float, kept_seconds: float) -> bool:
    """Whether all of a day's records are in the table, and final."""
    begins = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
    return now - kept_seconds < begins <= now - _DAY_SECONDS - LATE_SECONDS
