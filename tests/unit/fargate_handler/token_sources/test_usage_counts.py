from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.token_sources.chunk_fields import checked_usage
from evenflow.stream_core.base.answer import Usage

_ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3)
)


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"cached": 100}, Usage(105, 2, cached_tokens=100)),
        ({"cached": 5}, Usage(5, 2, cached_tokens=5)),
        ({"reasoning": 30}, Usage(5, 32, reasoning_tokens=30)),
        ({"cached": -1, "reasoning": "many"}, Usage(5, 2)),
        ({"cached": 3.0}, Usage(5, 2, cached_tokens=3)),
        ({"total": 7}, Usage(5, 2)),
        ({"total": 507}, Usage(5, 502, reasoning_tokens=500)),
        ({"total": 13, "reasoning": 6}, Usage(5, 8, reasoning_tokens=6)),
        ({"total": 37, "reasoning": 30}, Usage(5, 32, reasoning_tokens=30)),
        ({"total": 10**12, "reasoning": 10**12}, None),
        ({"cached": 10**12}, None),
    ],
)
def test_a_part_that_is_larger_than_the_whole_is_beside_it(
    counts: dict[str, Any], usage: Usage | None
) -> None:
    assert checked_usage(5, 2, **counts) == usage


@pytest.mark.parametrize("count", [None, True, -1, 2.5, "3", 10**12 + 1, 2**63, float("nan")])
def test_what_is_no_count_is_no_usage(count: object) -> None:
    assert checked_usage(count, 2) is None
    assert checked_usage(5, count) is None


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert checked_usage(1611.0, 7.0) == Usage(1611, 7)


@given(_ANYTHING, _ANYTHING, _ANYTHING, _ANYTHING, _ANYTHING)
def test_no_impossible_usage_is_ever_made(
    prompt: object, completion: object, cached: object, reasoning: object, total: object
) -> None:
    usage = checked_usage(prompt, completion, cached=cached, reasoning=reasoning, total=total)
    if usage is not None:
        assert 0 <= (usage.cached_tokens or 0) <= usage.prompt_tokens <= 10**12
        assert 0 <= (usage.reasoning_tokens or 0) <= usage.completion_tokens <= 10**12
