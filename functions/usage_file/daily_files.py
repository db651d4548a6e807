"""Which days need a file, and writing them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, date, datetime

from aws_lambda_powertools import Logger

from evenflow.functions.usage_file.usage_bucket import UsageBucket
from evenflow.functions.usage_file.usage_table import UsageTable
from evenflow.stream_core.tenants.budget import day_of
from evenflow.stream_core.tenants.usage import LATE_SECONDS

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
        given_tenants: those that have a key in a secret, beside those that have a record.
        kept_seconds: how long the table keeps records.
    """

    def __init__(
        self,
        table: UsageTable,
        bucket: UsageBucket,
        *,
        given_tenants: Callable[[], Iterable[str]],
        kept_seconds: float,
        logger: Logger,
    ) -> None:
        self._table = table
        self._bucket = bucket
        self._given_tenants = given_tenants
        self._kept_seconds = kept_seconds
        self._logger = logger

    def write_missing(self, now: float) -> None:
        """Write the files of the last days that have none, the newest first.

        One that takes all of a call's time, every day, keeps only older ones from being written.

        Args:
            now: seconds since the epoch.

        Raises:
            FilesMissing: some could not be written. The others were.
        """
        due = days_due(now, self._kept_seconds)
        there = self._bucket.days(due[-1]) if due else frozenset()
        self._write([day for day in due if day not in there])

    def write_anew(self, asked: str, now: float) -> None:
        """Write the file of a day, in the place of the one that there may be.

        Raises:
            ValueError: it is no day, it has not ended, or some of its records are forgotten.
            FilesMissing: it could not be written.
        """
        day = date.fromisoformat(asked).isoformat()
        if not is_whole(day, now, self._kept_seconds):
            raise ValueError(
                f"{day} was not written: it must have ended {LATE_SECONDS:.0f} s ago, and none of "
                "its records may be forgotten"
            )
        self._write([day])

    def _write(self, days: Collection[str]) -> None:
        if not days:
            return
        tenants = sorted({*self._table.tenants(), *self._given_tenants()})
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
    """Whether all of a day's records are in the table, and nothing changes them any more."""
    begins = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
    return now - kept_seconds < begins <= now - _DAY_SECONDS - LATE_SECONDS
