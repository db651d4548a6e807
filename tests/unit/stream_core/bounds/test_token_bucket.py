from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.bounds.token_bucket import TokenBucket


def test_a_bucket_is_full_at_first() -> None:
    bucket = TokenBucket(1.0, 3.0, 0.0)
    assert [bucket.take(0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert bucket.take(0.0) == pytest.approx(1.0)


def test_a_refusal_takes_nothing() -> None:
    bucket = TokenBucket(2.0, 1.0, 0.0)
    bucket.take(0.0)
    assert [bucket.take(0.0) for _ in range(5)] == [pytest.approx(0.5)] * 5
    assert bucket.take(0.5) == 0.0


def test_a_long_silence_fills_it_to_the_burst_and_no_further() -> None:
    bucket = TokenBucket(10.0, 2.0, 0.0)
    bucket.take(0.0)
    assert [bool(bucket.take(1000.0)) for _ in range(3)] == [False, False, True]


@given(
    st.floats(0.1, 1000),
    st.floats(1, 2000),
    st.lists(st.floats(0, 5), max_size=60),
    st.floats(0, 1e6),
)
def test_it_never_gives_more_than_burst_plus_rate_times_time(
    rate: float, burst: float, waits: list[float], start: float
) -> None:
    bucket, now, given_out = TokenBucket(rate, burst, start), start, 0
    for wait in waits:
        now += wait
        given_out += bucket.take(now) == 0.0
    assert given_out <= burst + rate * (now - start) + 1e-3


@given(st.floats(0.1, 1000), st.floats(1, 100), st.floats(0, 1e6))
def test_whoever_waits_as_long_as_told_gets_a_token(
    rate: float, burst: float, start: float
) -> None:
    bucket = TokenBucket(rate, burst, start)
    while not (wait := bucket.take(start)):
        pass
    # Over the wire the wait is whole milliseconds, rounded up.
    assert bucket.take(start + (int(wait * 1000) + 1) / 1000) == 0.0
