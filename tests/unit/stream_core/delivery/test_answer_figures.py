from __future__ import annotations

import pytest

from evenflow.stream_core.delivery.answer_figures import TokenGaps


def test_tokens_of_one_delivery_have_come_evenly_since_the_one_before() -> None:
    gaps = TokenGaps(1)
    for tokens in (3, 5, 7):
        gaps.record_delivery(0.04, tokens)
    summary = gaps.summary()
    assert summary is not None
    assert summary.p50 == summary.p95 == pytest.approx(0.02, rel=0.19)
    assert (summary.longest, summary.stalls) == (0.04, 0)


def test_percentiles_count_tokens_and_are_at_most_a_fifth_too_long() -> None:
    gaps = TokenGaps(0)
    for tokens, gap in enumerate([0.010] * 90 + [0.200] * 10, 1):
        gaps.record_delivery(gap, tokens)
    summary = gaps.summary()
    assert summary is not None
    assert 0.010 <= summary.p50 <= 0.012
    assert 0.200 <= summary.p95 <= 0.238


def test_what_is_longer_than_all_buckets_is_the_longest() -> None:
    gaps = TokenGaps(0)
    gaps.record_delivery(100.0, 1)
    assert gaps.summary() == (100.0, 100.0, 100.0, 1)


def test_each_silence_of_more_than_a_second_is_a_stall_also_before_a_marker() -> None:
    gaps = TokenGaps(0)
    for gap, tokens in ((3.0, 1), (1.0, 2), (2.0, 2), (1.5, 3)):
        gaps.record_delivery(gap, tokens)
    summary = gaps.summary()
    assert summary is not None
    assert (summary.longest, summary.stalls) == (3.0, 3)


def test_a_pause_of_the_readers_is_no_silence_of_the_model() -> None:
    gaps = TokenGaps(0)
    gaps.record_delivery(0.1, 1)
    gaps.skip_delivery(2)
    gaps.record_delivery(1.2, 3)
    summary = gaps.summary()
    assert summary is not None
    assert (summary.longest, summary.stalls) == (1.2, 1)
    assert [tokens for _, tokens in gaps.counted()] == [1, 1]


def test_without_tokens_there_is_nothing_to_say() -> None:
    gaps = TokenGaps(5)
    gaps.record_delivery(0.5, 5)
    assert gaps.summary() is None
