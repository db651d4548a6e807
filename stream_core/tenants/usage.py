"""Usage records, one for each answer, and their totals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import orjson

from evenflow.stream_core.base.model_prices import NANODOLLARS
from evenflow.stream_core.tenants.budget import Cost, day_of, digest_of_user

LATE_SECONDS = 900.0
"""The delay of a day's file after the end of the day.

A node may have been killed during the day's last answers. Their records are replaced meanwhile.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """What an answer used, and how it ended.

    Args:
        key: the id of its message's key. Empty: none.
        model: the name of the model on its server.
        ended_at: seconds since the epoch. Its day of UTC is the record's.
        epoch: of the owner that ended it. A record of a later epoch replaces it.
        cached_tokens, cache_write_tokens: input tokens that were read from the prompt cache, and
            that were written to it.
        tokens_counted_by: `model`, or `pieces` if its server reported no usage. Then the output is
            the number of pieces, and the input an estimate.
        nanodollars: by the operator's prices. None: the model has no price.
    """

    tenant: str
    response_id: str
    agent: str
    user: str
    key: str
    model: str
    state: str
    finish_reason: str | None = None
    error: str | None = None
    ended_at: float
    epoch: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    tokens_counted_by: str = "model"
    nanodollars: int | None = None

    @property
    def day(self) -> str:
        """The day of its end in UTC."""
        return day_of(self.ended_at)

    @property
    def cost(self) -> Cost:
        """What it adds to counters."""
        return Cost(self.input_tokens + self.output_tokens, self.nanodollars or 0)

    def replacing(self, before: UsageRecord | None) -> UsageRecord:
        """The record as the successor of an earlier owner's. It keeps the day."""
        return self if before is None else replace(self, ended_at=before.ended_at)

    def to_text(self) -> str:
        """The record as stores keep it."""
        return orjson.dumps(self).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `to_text` has written. Fields of later versions are left out."""
        known = {each.name for each in fields(cls)}
        found: dict[str, Any] = orjson.loads(text)
        return cls(**{name: value for name, value in found.items() if name in known})

    def to_line(self) -> bytes:
        """The record as a line of a day's file, with its cost in dollars."""
        line = asdict(self)
        nanodollars = line.pop("nanodollars")
        line["cost_usd"] = None if nanodollars is None else nanodollars / NANODOLLARS
        return orjson.dumps(line, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def file_of(records: Iterable[UsageRecord]) -> bytes:
    """A day's file: a line a record. The same records always make the same bytes.

    The lines are sorted by tenant, then by user. A table returns pages in this order, so a whole
    day is never in memory.
    """
    return b"".join(record.to_line() for record in sorted(records, key=_place))


def _place(record: UsageRecord) -> tuple[str, str, str]:
    return record.tenant, digest_of_user(record.user), record.response_id


@dataclass(frozen=True, slots=True)
class DayTotals:
    """The sum of what a tenant's answers of one day and model used."""

    day: str
    model: str
    answers: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    nanodollars: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The numbers by their names."""
        return {name: getattr(self, name) for name in COUNTS}

    def plus(self, other: DayTotals, times: int = 1) -> DayTotals:
        """The sum of both. With `times=-1`, the difference."""
        counts = other.counts
        changed = {name: value + times * counts[name] for name, value in self.counts.items()}
        return DayTotals(self.day, self.model, **changed)


COUNTS = tuple(each.name for each in fields(DayTotals) if each.name not in ("day", "model"))
"""The names of the numbers in totals."""


def totals_of(record: UsageRecord) -> DayTotals:
    """One record as totals."""
    return DayTotals(
        record.day,
        record.model,
        1,
        record.input_tokens,
        record.output_tokens,
        record.cached_tokens,
        record.reasoning_tokens,
        record.nanodollars or 0,
    )


def summed(totals: Iterable[DayTotals]) -> list[DayTotals]:
    """The totals by day and model, in that order. Sums of 0 are left out."""
    sums: dict[tuple[str, str], DayTotals] = {}
    for each in totals:
        place = each.day, each.model
        sums[place] = sums.get(place, DayTotals(*place)).plus(each)
    return [sums[place] for place in sorted(sums) if any(sums[place].counts.values())]
