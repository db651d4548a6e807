"""Totals of past days, which do not change any more and need not be read again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import groupby

from evenflow.stream_core.tenants.budget import day_of
from evenflow.stream_core.tenants.usage import DayTotals

Owner = tuple[str, str | None]
"""A tenant, and one of its users. None: the totals are of all its users."""

# How long the totals of a day may change. An answer may end again on the next day, at another node,
# and be settled a day late.
_CHANGING_SECONDS = 3 * 86_400.0
_MOST_DAYS = 4_096


class EndedDays:
    """Remembers the totals of days that do not change any more.

    Args:
        wall_time: seconds since the epoch.
        most_days: how many are remembered. The least recently used are forgotten first.
    """

    def __init__(self, wall_time: Callable[[], float], most_days: int = _MOST_DAYS) -> None:
        self._wall_time = wall_time
        self._most_days = most_days
        self._totals: OrderedDict[tuple[Owner, str], Sequence[DayTotals]] = OrderedDict()

    def find(self, owner: Owner, days: Iterable[str]) -> dict[str, Sequence[DayTotals]]:
        """The totals of these days, without the days that are not remembered."""
        remembered: dict[str, Sequence[DayTotals]] = {}
        for day in days:
            if (totals := self._totals.get((owner, day))) is not None:
                remembered[day] = totals
                self._totals.move_to_end((owner, day))
        return remembered

    def remember(self, owner: Owner, totals: Mapping[str, Sequence[DayTotals]]) -> None:
        """Remember the totals of these days, without the days that may change."""
        first_changing_day = day_of(self._wall_time() - _CHANGING_SECONDS)
        for day, totals_of_day in totals.items():
            if day < first_changing_day:
                self._totals[owner, day] = totals_of_day
        while len(self._totals) > self._most_days:
            self._totals.popitem(last=False)


def by_day(totals: Iterable[DayTotals], days: Iterable[str]) -> dict[str, Sequence[DayTotals]]:
    """The totals of each of these days. Days without usage have none.

    Args:
        totals: in the order of their days.
    """
    groups = {day: tuple(group) for day, group in groupby(totals, lambda each: each.day)}
    return {day: groups.get(day, ()) for day in days}


def days_between(first: str, last: str) -> list[str]:
    """The days from the first to the last."""
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    return [
        (begin + timedelta(days=number)).isoformat() for number in range((end - begin).days + 1)
    ]
