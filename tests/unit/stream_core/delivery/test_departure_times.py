from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.delivery.departures import departure_times


def test_clients_go_a_little_slower_than_the_rate_one_after_another() -> None:
    """A little below the rate, so that it holds in short windows too."""
    assert departure_times(5, per_second=2.0, most_seconds=60.0) == pytest.approx(
        [0.0, 0.6, 1.2, 1.8, 2.4]
    )


def test_where_that_would_take_too_long_they_go_closer_together() -> None:
    assert departure_times(4, per_second=1.0, most_seconds=2.0) == [0.0, 0.5, 1.0, 1.5]


def test_nobody_and_one_alone() -> None:
    assert departure_times(0, per_second=250.0, most_seconds=82.5) == []
    assert departure_times(1, per_second=250.0, most_seconds=82.5) == [0.0]


def test_without_any_time_all_go_at_once() -> None:
    assert departure_times(3, per_second=250.0, most_seconds=0.0) == [0.0, 0.0, 0.0]


@given(st.integers(1, 2_000), st.floats(0.1, 1e4), st.floats(0.0, 3_600.0))
def test_slots_are_even_and_within_the_window(
    clients: int, per_second: float, most_seconds: float
) -> None:
    times = departure_times(clients, per_second, most_seconds)
    assert len(times) == clients
    assert times[0] == 0.0
    assert all(0.0 <= time <= most_seconds for time in times)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == pytest.approx([gaps[0]] * len(gaps), rel=1e-6, abs=1e-9) if gaps else True
    assert all(gap <= 1.2 / per_second + 1e-9 for gap in gaps)
