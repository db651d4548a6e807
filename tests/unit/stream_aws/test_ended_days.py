"""Totals of days that are over: read once, and those that may change read again."""

from __future__ import annotations

from evenflow.stream_aws.ended_days import EndedDays, by_day, days_between
from evenflow.stream_core.tenants.usage import DayTotals

NOW = 1_795_478_400.0 + 43_200.0
"""Noon of 2026-11-24."""
DAYS = days_between("2026-11-18", "2026-11-24")
USED = [DayTotals(day, model, 1) for day in DAYS for model in ("m", "n") if day != "2026-11-19"]
ACME, ANN = ("acme", None), ("acme", "ann")


def test_the_days_between_two() -> None:
    assert days_between("2026-02-27", "2026-03-01") == ["2026-02-27", "2026-02-28", "2026-03-01"]
    assert days_between("2026-02-27", "2026-02-27") == ["2026-02-27"]


def test_days_that_nothing_changes_any_more_are_remembered_also_without_an_answer() -> None:
    ended = EndedDays(lambda: NOW)
    assert ended.find(ACME, DAYS) == {}
    ended.remember(ACME, by_day(USED, DAYS))
    found = ended.find(ACME, DAYS)
    assert list(found) == ["2026-11-18", "2026-11-19", "2026-11-20"]
    assert [len(found[day]) for day in found] == [2, 0, 2]
    assert ended.find(ANN, DAYS) == {}


def test_of_too_many_those_read_longest_ago_are_forgotten() -> None:
    ended = EndedDays(lambda: NOW, most_days=3)
    ended.remember(ACME, by_day(USED, DAYS))
    assert len(ended.find(ACME, DAYS[:1])) == 1
    ended.remember(ANN, by_day(USED, DAYS[:1]))
    assert list(ended.find(ACME, DAYS)) == ["2026-11-18", "2026-11-20"]
