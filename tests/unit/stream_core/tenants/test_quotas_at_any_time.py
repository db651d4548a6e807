"""Whatever messages come, in whatever order, with whatever bounds."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.tenants.charges import Caller, Charge, TokenDemand
from evenflow.stream_core.tenants.quotas import BoundState, Quotas
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant

_MOST = st.none() | st.integers(1, 3_000)
LIMITS = st.builds(
    QuotaLimits,
    requests_per_minute=st.none() | st.integers(1, 5),
    tokens_per_minute=_MOST,
    input_tokens_per_minute=_MOST,
    output_tokens_per_minute=_MOST,
    answers_at_once=st.none() | st.integers(1, 3),
)
PAYERS = st.builds(
    Caller, st.just("acme"), st.sampled_from(["", "k1"]), st.sampled_from(["", "ann", "bob"])
)
ASKED = st.builds(
    TokenDemand, st.integers(0, 4_000), st.none() | st.integers(1, 2_000), st.integers(1, 4)
)
STEPS = st.lists(
    st.tuples(PAYERS, ASKED, st.floats(0, 20), st.none() | st.integers(0, 2_000)), max_size=25
)
RECORDS = st.builds(
    lambda tenant, key, user: Tenant(
        id="acme",
        keys=(ApiKey.of_text("k1", "secret", limits=key),),
        limits=tenant,
        user_limits=user,
    ),
    LIMITS,
    LIMITS,
    LIMITS,
)


def all_states(quotas: Quotas, now: float) -> list[BoundState]:
    payers = [Caller("acme", key, user) for key in ("", "k1") for user in ("", "ann", "bob")]
    return [state for payer in payers for state in quotas.states(payer, now)]


def charged(quotas: Quotas, payer: Caller, asked: TokenDemand, now: float) -> Charge | RateLimited:
    try:
        return quotas.charge(payer, asked, now)
    except RateLimited as refusal:
        return refusal


@given(record=RECORDS, steps=STEPS, asked=ASKED, payer=PAYERS)
def test_who_comes_again_when_a_refusal_says_is_accepted_if_nobody_else_came(
    record: Tenant,
    steps: list[tuple[Caller, TokenDemand, float, int | None]],
    asked: TokenDemand,
    payer: Caller,
) -> None:
    quotas, now = Quotas(Tenants(records=[record])), 1_000.0
    for each, its, seconds, answered in steps:
        before = all_states(quotas, now)
        charge = charged(quotas, each, its, now)
        if isinstance(charge, RateLimited):
            assert all_states(quotas, now) == before, "it was charged to somebody"
        now += seconds
        if isinstance(charge, Charge) and answered is not None:
            charge.settle(its.input_tokens, answered, now)
    refusal = charged(quotas, payer, asked, now)
    if isinstance(refusal, Charge) or refusal.extra["limit"].endswith("answers_at_once"):
        return  # nobody knows when an answer ends
    wait_ms = refusal.retry_after_ms
    assert wait_ms is not None
    # It says no more than is needed.
    if wait_ms > 2:
        assert isinstance(charged(quotas, payer, asked, now + (wait_ms - 2) / 1000), RateLimited)
    assert isinstance(charged(quotas, payer, asked, now + wait_ms / 1000), Charge)


@given(record=RECORDS, steps=STEPS)
def test_when_all_answers_have_ended_none_is_counted(
    record: Tenant, steps: list[tuple[Caller, TokenDemand, float, int | None]]
) -> None:
    quotas, now, charges = Quotas(Tenants(records=[record])), 0.0, list[Charge]()
    for payer, asked, seconds, answered in steps:
        now += seconds
        charge = charged(quotas, payer, asked, now)
        if isinstance(charge, Charge):
            charges.append(charge)
        elif charges and answered is not None:
            charges.pop().settle(asked.input_tokens, answered, now)
    for each in charges:
        each.cancel(now)
    accounts = [*quotas._accounts._all.values(), *quotas._users._all.values()]
    assert not any(account.is_in_use for account in accounts)
