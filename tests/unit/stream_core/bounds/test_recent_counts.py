from __future__ import annotations

from evenflow.stream_core.bounds.recent_counts import RecentCounts


def test_it_counts_by_name() -> None:
    counts: RecentCounts[str] = RecentCounts(1.0, 0.0)
    for name in "aab":
        counts.add(name, 0.5)
    assert (counts.of("a", 0.5), counts.of("b", 0.5), counts.of("c", 0.5)) == (2, 1, 0)


def test_what_was_counted_is_known_for_one_period_at_least_and_two_at_most() -> None:
    counts: RecentCounts[str] = RecentCounts(1.0, 0.0)
    counts.add("a", 0.9)
    assert counts.of("a", 1.0) == 1
    counts.add("a", 1.1)
    assert counts.of("a", 1.9) == 2
    assert counts.of("a", 2.0) == 1
    assert counts.of("a", 3.0) == 0


def test_after_a_long_time_without_anybody_nothing_is_left() -> None:
    counts: RecentCounts[str] = RecentCounts(1.0, 0.0)
    counts.add("a", 0.5)
    assert counts.of("a", 50.0) == 0
