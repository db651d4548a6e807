from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given

from evenflow.stream_core.tenants.rates import Amount, Bucket


def test_a_minutes_worth_may_be_used_at_once_and_comes_back_evenly() -> None:
    bucket = Bucket(0.0)
    bucket.add(60, 60, 0.0)
    assert bucket.remaining(60, 0.0) == 0
    assert bucket.wait(1, 60, 0.0) == 1.0
    assert bucket.remaining(60, 10.0) == 10
    assert bucket.empty_in(60, 10.0) == 50.0
    assert bucket.remaining(60, 1_000.0) == 60


def test_what_is_beyond_the_bound_is_a_debt_that_has_to_drain_first() -> None:
    bucket = Bucket(0.0)
    bucket.add(180, 60, 0.0)
    assert bucket.remaining(60, 0.0) == 0
    assert bucket.wait(1, 60, 0.0) == 121.0
    assert bucket.wait(0, 60, 0.0) == 120.0
    assert bucket.wait(1, 60, 121.0) == 0.0


def test_more_than_a_minutes_worth_has_room_once_nothing_is_used() -> None:
    bucket = Bucket(0.0)
    assert bucket.wait(1_000, 60, 0.0) == 0.0
    bucket.add(30, 60, 0.0)
    assert bucket.wait(1_000, 60, 0.0) == 30.0


def test_what_is_given_back_has_room_but_never_more_than_a_minutes_worth() -> None:
    bucket = Bucket(0.0)
    bucket.add(50, 60, 0.0)
    bucket.add(-40, 60, 0.0)
    assert bucket.remaining(60, 0.0) == 50
    bucket.add(-40, 60, 0.0)
    assert bucket.remaining(60, 0.0) == 60


def test_a_bound_that_changes_holds_at_once() -> None:
    bucket = Bucket(0.0)
    bucket.add(60, 60, 0.0)
    assert bucket.remaining(600, 0.0) == 540


@pytest.mark.parametrize(
    ("bound", "counted"),
    [
        ("requests_per_minute", 1),
        ("tokens_per_minute", 23),
        ("input_tokens_per_minute", 20),
        ("output_tokens_per_minute", 3),
    ],
)
def test_each_bound_counts_what_its_name_says(bound: str, counted: int) -> None:
    assert Amount(1, 20, 3).of(bound) == counted


@given(
    most=st.integers(1, 10**9),
    amounts=st.lists(st.tuples(st.integers(-(10**6), 10**6), st.floats(0, 600)), max_size=20),
    amount=st.integers(0, 10**6),
    begun_at=st.floats(0, 10**7),
)
def test_after_the_wait_in_whole_milliseconds_there_is_room(
    most: int, amounts: list[tuple[int, float]], amount: int, begun_at: float
) -> None:
    now, bucket = begun_at, Bucket(begun_at)
    for used, seconds in amounts:
        bucket.add(used, most, now)
        now += seconds
    wait = bucket.wait(amount, most, now)
    assert bucket.wait(amount, most, now + math.ceil(wait * 1000) / 1000) == 0.0


@given(
    most=st.integers(1, 10_000),
    tries=st.lists(st.tuples(st.integers(1, 500), st.floats(0, 30)), max_size=100),
)
def test_whatever_comes_no_more_is_taken_than_the_bound_and_what_drains(
    most: int, tries: list[tuple[int, float]]
) -> None:
    now, bucket, taken, largest = 0.0, Bucket(0.0), 0, 0
    for amount, seconds in tries:
        if bucket.wait(amount, most, now) == 0.0:
            bucket.add(amount, most, now)
            taken, largest = taken + amount, max(largest, amount)
        now += seconds
    # What is larger than the bound is taken when nothing is used.
    assert taken <= max(most, largest) + now * most / 60 + 0.1
