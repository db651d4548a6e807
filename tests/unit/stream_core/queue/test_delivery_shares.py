from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.queue.delivery_shares import over_their_share

TENANTS = st.sampled_from("abcdefgh")
READERS = st.dictionaries(TENANTS, st.integers(1, 10_000))
WEIGHTS = st.fixed_dictionaries({name: st.floats(0.01, 1_000) for name in "abcdefgh"})


def same(_tenant: str) -> float:
    return 1.0


def test_who_has_twenty_times_the_readers_of_another_is_over_its_share() -> None:
    assert over_their_share({"greedy": 400, "quiet": 20}, same) == {"greedy"}


def test_a_tenant_alone_and_tenants_of_about_the_same_size_are_within_theirs() -> None:
    assert not over_their_share({}, same)
    assert not over_their_share({"public": 5_000}, same)
    assert not over_their_share({"a": 60, "b": 40}, same)


def test_a_weight_is_a_larger_share() -> None:
    weights = {"large": 4.0, "small": 1.0}
    assert not over_their_share({"large": 80, "small": 20}, weights.__getitem__)
    assert over_their_share({"large": 20, "small": 20}, weights.__getitem__) == {"small"}


def test_who_is_over_it_stays_so_until_it_is_back_at_about_the_share() -> None:
    over = frozenset[str]()
    seen = []
    for readers in (60, 61, 63, 62, 55, 53, 52, 60):
        over = over_their_share({"a": readers, "b": 100 - readers}, same, over)
        seen.append("a" in over)
    assert seen == [False, False, True, True, True, True, False, False]


@given(READERS, WEIGHTS, st.frozensets(TENANTS))
def test_somebody_is_always_within_its_share_and_whoever_is_over_it_has_more_for_its_weight(
    readers: dict[str, int], weights: dict[str, float], before: frozenset[str]
) -> None:
    over = over_their_share(readers, weights.__getitem__, before)
    assert over <= readers.keys()
    assert over != readers.keys() or not readers
    a_share = sum(readers.values()) / sum([weights[tenant] for tenant in readers] or [1])
    assert all(readers[tenant] / weights[tenant] > a_share for tenant in over)
