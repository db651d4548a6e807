"""Keeps the tenants in force up to date with their records in the table, within a few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from evenflow.stream_aws.tenant_items import (
    read_records,
    read_revision,
    records_request,
    revision_request,
)
from evenflow.stream_core.tenants.registry import Tenants

LOOK_SECONDS = 3.0
"""How long the records count as current."""


class TenantRecordCache:
    """Reads the records, and reads them again when they have changed.

    Args:
        client: a boto3 client of DynamoDB.
        tenants: the tenants in force, which `refresh` updates.
        wall_time: seconds since the epoch. The monotonic clock may stop while Lambda freezes
            the environment.
    """

    def __init__(
        self,
        client: Any,
        table: str,
        tenants: Tenants,
        logger: Logger,
        wall_time: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._table = table
        self._tenants = tenants
        self._logger = logger
        self._wall_time = wall_time
        self._revision: int | None = None
        self._check_at = 0.0

    def refresh(self) -> bool:
        """Bring the tenants up to date. If DynamoDB fails, the last records stay in force.

        Returns:
            Whether the records were ever read.
        """
        now = self._wall_time()
        if now >= self._check_at:
            # Set first, so that a failed call does not delay the next one, too.
            self._check_at = now + LOOK_SECONDS
            try:
                self._check_revision()
            except (BotoCoreError, ClientError, ValueError) as error:
                self._logger.error(
                    "the tenants' records could not be read; those that are known stay in force",
                    extra={"table": self._table, "reason": str(error)},
                )
        return self._revision is not None

    def _check_revision(self) -> None:
        if self._revision is not None:
            answer = self._client.get_item(**revision_request(self._table))
            if read_revision(answer.get("Item")) == self._revision:
                self._tenants.note_read()
                return
        pages = self._client.get_paginator("query").paginate(**records_request(self._table))
        stored = read_records(pages.build_full_result()["Items"])
        if stored is None:
            return  # half of a change is left for the next look
        self._tenants.replace(stored.records, removed=stored.removed, closed=stored.had_tenants)
        self._revision = stored.revision
