"""Usage records: what each answer used, once an answer, and their totals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import orjson

from evenflow.stream_core.base.model_prices import NANODOLLARS
from evenflow.stream_core.tenants.budget import Cost, day_of, digest_of_user

LATE_SECONDS = 900.0
"""How long after a day's end its file is made.

A task may have been killed at the day's last answers, whose records are replaced then.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """What an answer used, and how it ended.

    Args:
        key: the id of the key that its message came with. Empty: none.
        model: its name at its server.
        ended_at: seconds since the epoch. Its day of UTC is the record's.
        epoch: of the owner that ended it. A record of a later one takes its place.
        cached_tokens, cache_write_tokens: tokens of the input that came from the prompt's cache,
            and that were written to it.
        tokens_counted_by: `model`, or `pieces` where its server told no usage: then the output is
            the pieces that came, and the input an estimate.
        nanodollars: by the operator's prices. None: the model has none.
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
        """The day of UTC at which it ended."""
        return day_of(self.ended_at)

    @property
    def cost(self) -> Cost:
        """What it adds to counters."""
        return Cost(self.input_tokens + self.output_tokens, self.nanodollars or 0)

    def in_place_of(self, before: UsageRecord | None) -> UsageRecord:
        """The record in an earlier owner's place. It stays the same day's."""
        return self if before is None else replace(self, ended_at=before.ended_at)

    def to_text(self) -> str:
        """The record as stores keep it."""
        return orjson.dumps(self).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The record in a text of `to_text`. Fields that this version doesn't know are left out."""
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

    The lines are by tenant, then by user. In that order a table gives them page by page, so that
    nobody needs to hold a whole day.
    """
    return b"".join(record.to_line() for record in sorted(records, key=_place))


def _place(record: UsageRecord) -> tuple[str, str, str]:
    return record.tenant, digest_of_user(record.user), record.response_id


@dataclass(frozen=True, slots=True)
class DayTotals:
    """What a tenant's answers of one day and model used together."""

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
    """The totals by day and model, in that order. What comes to nothing is left out."""
    sums: dict[tuple[str, str], DayTotals] = {}
    for each in totals:
        place = each.day, each.model
        sums[place] = sums.get(place, DayTotals(*place)).plus(each)
    return [sums[place] for place in sorted(sums) if any(sums[place].counts.values())]
