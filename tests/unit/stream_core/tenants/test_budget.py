"""What is reserved and settled against budgets, for whatever is asked in whatever order."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.tenants.budget import (
    Cost,
    Reservation,
    ReservationRequest,
    added_by,
    budgets_of,
    has_budgets,
    most_before,
    settlement,
    without_room,
)
from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant

NOW = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC).timestamp()
COUNTERS = ("tokens/day/tenant", "tokens/day/key/k", "nanodollars/month/tenant")

amounts = st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 50), min_size=1)
bounds = st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 120))
committed = st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 120))


def ask(
    wanted: dict[str, int], bound: dict[str, int], before: dict[str, int] | None = None
) -> ReservationRequest:
    was = None if before is None else Reservation("t", "r", "a", NOW, before)
    return ReservationRequest(
        Reservation("t", "r", "a", NOW, wanted, 0 if was is None else 1), bound, was
    )


asks = st.lists(st.builds(ask, amounts, bounds, st.none() | amounts), min_size=1, max_size=8)


@given(asks, committed)
def test_what_is_granted_together_never_overruns_a_bound(
    asked: list[ReservationRequest], before: dict[str, int]
) -> None:
    sums = Counter(before)
    for each, full in zip(asked, without_room(asked, before), strict=True):
        if full is None:
            sums.update(each.added)
            for name, bound in each.bounds.items():
                assert sums[name] <= bound
        else:
            assert sums[full] + each.added.get(full, 0) > each.bounds[full]


@given(asks, committed)
def test_all_are_granted_exactly_where_no_counter_is_above_the_most_before(
    asked: list[ReservationRequest], before: dict[str, int]
) -> None:
    most = most_before(asked)
    fits = all(before.get(name, 0) <= bound for name, bound in most.items())
    assert fits == (without_room(asked, before) == [None] * len(asked))


@given(asks)
def test_what_several_add_is_the_sum_of_what_each_adds(asked: list[ReservationRequest]) -> None:
    together = added_by(asked)
    for name in COUNTERS:
        assert together.get(name, 0) == sum(each.added.get(name, 0) for each in asked)


@given(
    st.builds(Cost, st.integers(0, 100), st.integers(0, 100)),
    st.none() | amounts,
    st.lists(st.builds(Cost, st.integers(0, 100), st.integers(0, 100)), max_size=3),
)
def test_however_often_it_is_settled_the_last_cost_counts_and_nothing_stays_reserved(
    cost: Cost, reserved: dict[str, int] | None, earlier: list[Cost]
) -> None:
    sums, counted = Counter(reserved or {}), None
    for each in (*earlier, cost):
        settled = settlement(each, COUNTERS, reserved, counted)
        sums.update(settled.changes)
        reserved, counted = None, settled.counted
    assert counted is not None
    assert {name: sums[name] for name in counted} == {name: cost.of(name) for name in counted}
    assert not any(sums[name] for name in COUNTERS if name not in counted)


def test_an_answer_counts_to_its_tenants_its_keys_and_its_users_budgets() -> None:
    tenant = Tenant(
        id="acme",
        keys=(
            ApiKey.of_text("mine", "a", limits=QuotaLimits(tokens_per_day=7)),
            ApiKey.of_text("other", "b", limits=QuotaLimits(tokens_per_day=8)),
        ),
        limits=QuotaLimits(tokens_per_day=9, dollars_per_month=1.5),
        user_limits=QuotaLimits(dollars_per_month=0.25),
    )
    found = budgets_of(tenant, "mine", "ann", NOW)
    assert [(each.counter.rpartition("/")[0], each.bound) for each in found] == [
        ("tokens/2026-11-30", 9),
        ("nanodollars/2026-11", 1_500_000_000),
        ("tokens/2026-11-30/key", 7),
        ("nanodollars/2026-11/user", 250_000_000),
    ]
    assert {each.ends_at for each in found} == {NOW + 1}  # the last day of its month
    assert [each.in_dollars for each in found] == [False, True, False, True]
    nobodys = budgets_of(tenant, "", "", NOW)
    assert [each.counter for each in nobodys] == [
        "tokens/2026-11-30/tenant",
        "nanodollars/2026-11/tenant",
    ]


def test_only_bounds_in_tokens_and_dollars_are_budgets() -> None:
    assert not has_budgets(Tenant(id="acme", limits=QuotaLimits(requests_per_minute=1)))
    assert has_budgets(Tenant(id="acme", user_limits=QuotaLimits(tokens_per_day=1)))
