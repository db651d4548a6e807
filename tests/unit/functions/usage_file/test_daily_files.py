"""Which days of UTC need a file of their usage, at any time."""

from __future__ import annotations

import pytest

from evenflow.functions.usage_file.daily_files import days_due, is_whole

MIDNIGHT = 1_795_478_400.0  # 2026-11-24T00:00:00Z
DAY = 86_400.0
LONG = 90 * DAY


def test_the_last_seven_days_the_newest_a_quarter_of_an_hour_after_its_end() -> None:
    before = days_due(MIDNIGHT + 899, LONG)
    assert (len(before), before[0], before[-1]) == (7, "2026-11-22", "2026-11-16")
    after = days_due(MIDNIGHT + 900, LONG)
    assert (len(after), after[0], after[-1]) == (7, "2026-11-23", "2026-11-17")
    assert days_due(MIDNIGHT + DAY - 1, LONG) == after


@pytest.mark.parametrize(("kept_days", "newest_days"), [(1, 0), (2, 1), (3, 2), (8, 7), (9, 7)])
def test_no_day_of_which_the_table_may_have_forgotten_a_record(
    kept_days: int, newest_days: int
) -> None:
    now = MIDNIGHT + 900
    assert days_due(now, kept_days * DAY) == days_due(now, LONG)[:newest_days]


def test_a_day_is_whole_from_a_quarter_of_an_hour_after_its_end_until_its_first_record_goes() -> (
    None
):
    day, kept = "2026-11-23", 2 * DAY
    assert not is_whole(day, MIDNIGHT + 899, kept)
    assert is_whole(day, MIDNIGHT + 900, kept)
    assert is_whole(day, MIDNIGHT + DAY - 1, kept)
    assert not is_whole(day, MIDNIGHT + DAY, kept)
