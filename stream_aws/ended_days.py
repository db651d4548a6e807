"""Totals of days that are over, which need not be read again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from itertools import groupby

from evenflow.stream_core.tenants.budget import day_of
from evenflow.stream_core.tenants.usage import DayTotals

Owner = tuple[str, str | None]
"""A tenant, and a user of it. None: the totals are of all its users."""

# An answer may end again on the next day, at another task, and be settled a day late.
_CHANGING_SECONDS = 3 * 86_400.0
_MOST_DAYS = 4_096


class EndedDays:
    """Remembers the totals of days that nothing changes any more.

    Args:
        wall_time: seconds since the epoch.
        most_days: how many are remembered. Of more, those that were read longest ago are forgotten.
    """

    def __init__(self, wall_time: Callable[[], float], most_days: int = _MOST_DAYS) -> None:
        self._wall_time = wall_time
        self._most_days = most_days
        self._known: OrderedDict[tuple[Owner, str], Sequence[DayTotals]] = OrderedDict()

    def find(self, owner: Owner, days: Iterable[str]) -> dict[str, Sequence[DayTotals]]:
        """The totals of those of these days that are remembered."""
        found: dict[str, Sequence[DayTotals]] = {}
        for day in days:
            if (totals := self._known.get((owner, day))) is not None:
                found[day] = totals
                self._known.move_to_end((owner, day))
        return found

    def remember(self, owner: Owner, days: Iterable[str], totals: Iterable[DayTotals]) -> None:
        """Remember the totals of those of these days that are over.

        Args:
            totals: all of these days, by day.
        """
        by_day = {day: tuple(each) for day, each in groupby(totals, lambda each: each.day)}
        over_before = day_of(self._wall_time() - _CHANGING_SECONDS)
        for day in days:
            if day < over_before:
                self._known[owner, day] = by_day.get(day, ())
        while len(self._known) > self._most_days:
            self._known.popitem(last=False)


def days_between(first: str, last: str) -> list[str]:
    """The days from the first to the last."""
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    return [
        (begin + timedelta(days=number)).isoformat() for number in range((end - begin).days + 1)
    ]
