from __future__ import annotations

import pytest

from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.tenants.charges import Caller, Connected, TokenDemand
from evenflow.stream_core.tenants.heavy_users import MOST_REPORTED_USERS, name_of_user
from evenflow.stream_core.tenants.quotas import Quotas
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.rotation import rotated
from evenflow.stream_core.tenants.tenant import NO_LIMITS, ApiKey, QuotaLimits, Tenant
from evenflow.stream_core.tenants.tenant_activity import Activity

ACME, OTHER = Caller("acme"), Caller("other")
ANN = Caller("acme", "k1", "ann")
# 100 tokens in, and 50 out at most.
ASKED = TokenDemand(100, 50)


def quotas(
    tenant: QuotaLimits = NO_LIMITS,
    key: QuotaLimits = NO_LIMITS,
    user: QuotaLimits = NO_LIMITS,
    *,
    most_users: int = 100,
) -> Quotas:
    keys = (ApiKey.of_text("k1", "secret", limits=key),)
    record = Tenant(id="acme", keys=keys, limits=tenant, user_limits=user)
    return Quotas(Tenants(records=[record]), most_users=most_users)


def left(of: Quotas, payer: Caller, now: float = 0.0) -> dict[str, int]:
    return {state.limit: state.remaining for state in of.states(payer, now)}


def refused(of: Quotas, payer: Caller, asked: TokenDemand = ASKED, now: float = 0.0) -> RateLimited:
    with pytest.raises(RateLimited) as refusal:
        of.charge(payer, asked, now)
    return refusal.value


def test_who_has_no_bounds_is_not_counted() -> None:
    accounts = quotas()
    for _ in range(1_000):
        accounts.charge(ANN, ASKED, 0.0)
        connected(accounts, ANN)
    assert left(accounts, ANN) == {}


def test_a_message_is_charged_one_request_its_input_and_the_longest_answer_it_allows() -> None:
    accounts = quotas(
        QuotaLimits(
            requests_per_minute=10,
            tokens_per_minute=1_000,
            input_tokens_per_minute=1_000,
            output_tokens_per_minute=1_000,
        )
    )
    accounts.charge(ACME, ASKED, 0.0)
    assert left(accounts, ACME) == {
        "tenant.requests_per_minute": 9,
        "tenant.tokens_per_minute": 850,
        "tenant.input_tokens_per_minute": 900,
        "tenant.output_tokens_per_minute": 950,
    }


def test_an_answer_of_unknown_length_is_taken_to_be_as_long_as_the_tenants_lately() -> None:
    accounts = quotas(QuotaLimits(output_tokens_per_minute=10_000))
    for _ in range(100):
        accounts.charge(ACME, TokenDemand(0), 0.0).settle(0, 20, 0.0)
    # One that failed says nothing of the others' length.
    accounts.charge(ACME, TokenDemand(0), 0.0).settle(0, 0, 0.0)
    before = left(accounts, ACME)["tenant.output_tokens_per_minute"]
    accounts.charge(ACME, TokenDemand(0), 0.0)
    assert before - left(accounts, ACME)["tenant.output_tokens_per_minute"] in (20, 21)


def test_what_was_reserved_and_not_used_goes_back_at_the_end() -> None:
    accounts = quotas(QuotaLimits(tokens_per_minute=1_000))
    charge = accounts.charge(ACME, TokenDemand(100, 900), 0.0)
    assert left(accounts, ACME) == {"tenant.tokens_per_minute": 0}
    charge.settle(110, 30, 0.0)
    assert left(accounts, ACME) == {"tenant.tokens_per_minute": 860}


def test_who_asks_for_the_longest_answer_of_all_keeps_others_out_for_a_minute_at_most() -> None:
    accounts = quotas(QuotaLimits(tokens_per_minute=600), user=QuotaLimits(tokens_per_minute=60))
    greedy = accounts.charge(ANN, TokenDemand(0, 10_000_000), 0.0)
    assert refused(accounts, ACME, TokenDemand(0, 60)).retry_after_ms == 6_000
    accounts.charge(ACME, TokenDemand(0, 600), 60.0)
    greedy.settle(0, 1_200, 60.0)
    # What was used beyond the reservation is a debt.
    assert refused(accounts, ACME, TokenDemand(0, 60), 60.0).retry_after_ms == 66_000


def test_what_was_used_beyond_the_reservation_is_a_debt_that_delays_the_next() -> None:
    accounts = quotas(QuotaLimits(tokens_per_minute=600))
    accounts.charge(ACME, ASKED, 0.0).settle(100, 1_100, 0.0)
    # 600 too many, and 150 for the next one: at ten a second.
    assert refused(accounts, ACME).retry_after_ms == 75_000


def test_what_was_read_is_corrected_too() -> None:
    accounts = quotas(QuotaLimits(input_tokens_per_minute=1_000))
    accounts.charge(ACME, ASKED, 0.0).settle(80, 10, 0.0)
    assert left(accounts, ACME) == {"tenant.input_tokens_per_minute": 920}


def test_a_message_that_is_not_accepted_after_all_gets_everything_back() -> None:
    accounts = quotas(QuotaLimits(requests_per_minute=1, tokens_per_minute=200, answers_at_once=1))
    accounts.charge(ACME, ASKED, 0.0).cancel(0.0)
    accounts.charge(ACME, ASKED, 0.0)


def test_a_charge_is_corrected_once() -> None:
    accounts = quotas(QuotaLimits(tokens_per_minute=1_000))
    charge = accounts.charge(ACME, ASKED, 0.0)
    charge.settle(100, 50, 0.0)
    charge.settle(100, 500, 0.0)
    charge.cancel(0.0)
    assert left(accounts, ACME) == {"tenant.tokens_per_minute": 850}


def test_a_refusal_by_any_of_the_three_charges_none_of_them() -> None:
    accounts = quotas(
        QuotaLimits(tokens_per_minute=10_000),
        QuotaLimits(requests_per_minute=10),
        QuotaLimits(tokens_per_minute=200),
    )
    accounts.charge(ANN, ASKED, 0.0)
    before = left(accounts, ANN)
    refusal = refused(accounts, ANN)
    assert (refusal.code, refusal.extra["limit"]) == ("user_limit", "user.tokens_per_minute")
    assert left(accounts, ANN) == before


@pytest.mark.parametrize("of", ["tenant", "key", "user"])
@pytest.mark.parametrize(
    ("bound", "most"),
    [
        ("requests_per_minute", 1),
        ("tokens_per_minute", 200),
        ("input_tokens_per_minute", 150),
        ("output_tokens_per_minute", 75),
        ("answers_at_once", 1),
    ],
)
def test_each_bound_refuses_with_its_own_name(of: str, bound: str, most: int) -> None:
    limits = dict.fromkeys(("tenant", "key", "user"), NO_LIMITS)
    limits[of] = QuotaLimits.model_validate({bound: most})
    accounts = quotas(limits["tenant"], limits["key"], limits["user"])
    accounts.charge(ANN, ASKED, 0.0)
    refusal = refused(accounts, ANN)
    assert refusal.to_object() == {
        "type": "rate_limit_error",
        "code": f"{of}_limit",
        "message": refusal.message,
        "retry_after_ms": refusal.retry_after_ms,
        "limit": f"{of}.{bound}",
    }


def test_keys_and_users_of_a_tenant_are_counted_apart() -> None:
    one = QuotaLimits(requests_per_minute=1)
    accounts = quotas(key=one, user=one)
    accounts.charge(Caller("acme", "k1", "ann"), ASKED, 0.0)
    accounts.charge(Caller("acme", "", "bob"), ASKED, 0.0)
    accounts.charge(Caller("acme"), ASKED, 0.0)
    assert refused(accounts, Caller("acme", "k1", "cid")).code == "key_limit"
    assert refused(accounts, Caller("acme", "", "ann")).code == "user_limit"


def test_keys_of_one_line_use_one_account_through_any_number_of_rotations() -> None:
    limits = QuotaLimits(requests_per_minute=4, answers_at_once=9, connections=2)
    record = Tenant(id="acme", keys=(ApiKey.of_text("k1", "1", limits=limits),))
    for number in (2, 3):
        new_key = ApiKey.of_text(f"k{number}", str(number))
        record = rotated(record, new_key, now=0.0, overlap=60.0, key_id=record.keys[-1].id)
    accounts = Quotas(Tenants(records=[record]))
    for key in ("k1", "k2", "k3", "k1"):
        accounts.charge(Caller("acme", key), ASKED, 0.0)
    for key in ("k1", "k2", "k3"):
        assert refused(accounts, Caller("acme", key)).extra["limit"] == "key.requests_per_minute"
    accounts.connect(Caller("acme", "k1"), 0.0)
    accounts.connect(Caller("acme", "k3"), 0.0)
    with pytest.raises(RateLimited):
        accounts.check_connection(Caller("acme", "k2"))
    assert "acme/k1" in accounts.busy_accounts(0.0)
    accounts.learn(Activity("acme/k1", "other", 0.0, requests=4), 60.0)
    assert refused(accounts, Caller("acme", "k3"), now=60.0).code == "key_limit"


def test_so_many_users_are_remembered_and_the_one_idle_longest_begins_anew() -> None:
    accounts = quotas(user=QuotaLimits(requests_per_minute=1), most_users=3)
    for user in ("ann", "bob", "cid", "dan"):
        accounts.charge(Caller("acme", "", user), ASKED, 0.0).settle(100, 1, 0.0)
    accounts.charge(Caller("acme", "", "ann"), ASKED, 0.0)
    assert refused(accounts, Caller("acme", "", "dan")).code == "user_limit"


def test_a_user_with_an_answer_is_not_forgotten() -> None:
    accounts = quotas(user=QuotaLimits(answers_at_once=1), most_users=3)
    accounts.charge(Caller("acme", "", "ann"), ASKED, 0.0)
    for each in range(1_000):
        accounts.charge(Caller("acme", "", f"u{each}"), ASKED, 0.0).settle(100, 1, 0.0)
    assert refused(accounts, Caller("acme", "", "ann")).code == "user_limit"
    assert len(accounts._users) <= 4


def test_an_answer_makes_room_for_the_next_when_it_has_ended() -> None:
    accounts = quotas(QuotaLimits(answers_at_once=2))
    first, _ = accounts.charge(ACME, ASKED, 0.0), accounts.charge(ACME, ASKED, 0.0)
    assert refused(accounts, ACME).retry_after_ms == 1_000
    first.settle(100, 5, 0.0)
    accounts.charge(ACME, ASKED, 0.0)


def test_an_answer_that_is_taken_over_is_counted_and_not_charged_again() -> None:
    accounts = quotas(QuotaLimits(tokens_per_minute=1_000, answers_at_once=1))
    charge = accounts.take_over(ACME)
    assert refused(accounts, ACME).extra["limit"] == "tenant.answers_at_once"
    charge.settle(400, 400, 0.0)
    assert left(accounts, ACME) == {"tenant.tokens_per_minute": 1_000}
    accounts.charge(ACME, ASKED, 0.0)


def test_an_answer_that_another_task_goes_on_with_stays_charged() -> None:
    accounts = quotas(QuotaLimits(tokens_per_minute=1_000, answers_at_once=1))
    accounts.charge(ACME, ASKED, 0.0).release()
    assert left(accounts, ACME) == {"tenant.tokens_per_minute": 850}
    accounts.charge(ACME, ASKED, 0.0)


def connected(of: Quotas, payer: Caller) -> Connected:
    of.check_connection(payer)
    return of.connect(payer, 0.0)


def test_connections_are_counted_until_they_close() -> None:
    accounts = quotas(QuotaLimits(connections=2), user=QuotaLimits(connections=1))
    first = connected(accounts, ANN)
    with pytest.raises(RateLimited, match="may have 1 connections") as of_user:
        connected(accounts, ANN)
    assert of_user.value.code == "user_limit"
    connected(accounts, Caller("acme", "", "bob"))
    with pytest.raises(RateLimited, match="may have 2 connections") as of_tenant:
        connected(accounts, Caller("acme", "", "cid"))
    assert of_tenant.value.extra["limit"] == "tenant.connections"
    first.close()
    first.close()
    connected(accounts, ANN)
    with pytest.raises(RateLimited):
        connected(accounts, ANN)


def test_a_tenant_in_shadow_is_told_what_would_be_refused_and_goes_on() -> None:
    told = []
    limits = QuotaLimits(requests_per_minute=1, connections=1)
    tenants = Tenants(records=[Tenant(id="acme", limits=limits, shadow=True)])
    accounts = Quotas(tenants, lambda *shadow: told.append(shadow))
    for _ in range(3):
        accounts.charge(ACME, ASKED, 0.0).settle(100, 1, 0.0)
        connected(accounts, ACME)
    assert [(tenant, refusal.extra["limit"]) for tenant, refusal in told] == [
        ("acme", "tenant.requests_per_minute"),
        ("acme", "tenant.connections"),
    ] * 2
    # What would have been refused is not charged: a minute later the next one would be accepted.
    accounts.charge(ACME, ASKED, 60.0)
    assert len(told) == 4


def test_what_other_tasks_charge_holds_here_too_and_what_they_give_back() -> None:
    accounts = quotas(QuotaLimits(tokens_per_minute=1_000, answers_at_once=3, connections=3))
    accounts.learn(Activity("acme", "", input_tokens=100, output_tokens=800), 0.0)
    assert refused(accounts, ACME).extra["limit"] == "tenant.tokens_per_minute"
    accounts.learn(Activity("acme", "", output_tokens=-700, answers=2, connections=3), 0.0)
    accounts.charge(ACME, ASKED, 0.0)
    assert refused(accounts, ACME).extra["limit"] == "tenant.answers_at_once"
    with pytest.raises(RateLimited):
        accounts.check_connection(ACME)
    accounts.learn(Activity("acme", ""), 0.0)
    accounts.charge(ACME, ASKED, 0.0)
    accounts.check_connection(ACME)


def test_a_key_is_counted_over_all_tasks_too() -> None:
    accounts = quotas(key=QuotaLimits(requests_per_minute=2))
    accounts.learn(Activity("acme/k1", "", requests=2), 0.0)
    assert refused(accounts, ANN).code == "key_limit"
    accounts.charge(ACME, ASKED, 0.0)


def test_what_was_charged_here_is_told_without_what_went_back() -> None:
    one = QuotaLimits(tokens_per_minute=6_000)
    accounts = quotas(one, one)
    charge = accounts.charge(ANN, ASKED, 0.0)
    accounts.charge(ACME, ASKED, 0.0).cancel(0.0)
    accounts.connect(ACME, 0.0)
    of_key = {"requests": 1, "input_tokens": 100, "output_tokens": 50, "answers": 1}
    assert accounts.activity("acme/k1") == of_key | {"connections": 0}
    assert accounts.activity("acme") == of_key | {"connections": 1}
    charge.settle(100, 7, 0.0)
    assert accounts.activity("acme/k1")["output_tokens"] == 7
    # What others charge is not told again.
    accounts.learn(Activity("acme", "", requests=5), 0.0)
    assert accounts.activity("acme")["requests"] == 1
    assert accounts.activity("other") == {}


def test_who_has_used_nothing_for_a_minute_is_busy_no_more() -> None:
    accounts = quotas(QuotaLimits(requests_per_minute=6, answers_at_once=9))
    assert accounts.busy_accounts(0.0) == []
    charge = accounts.charge(ACME, ASKED, 0.0)
    assert accounts.busy_accounts(1_000.0) == ["acme"]
    charge.settle(100, 1, 1_000.0)
    assert accounts.busy_accounts(1_059.0) == ["acme"]
    for now in range(1_050, 1_200):
        accounts.learn(Activity("acme", "", requests=int(now == 1_050)), float(now))
    assert accounts.busy_accounts(1_109.0) == ["acme"]
    assert accounts.busy_accounts(1_110.0) == []


def test_what_others_have_now_is_asked_for_until_they_have_nothing() -> None:
    accounts = quotas(QuotaLimits(answers_at_once=2, connections=2))
    accounts.learn(Activity("acme", "", answers=2), 0.0)
    assert accounts.busy_accounts(1_000.0) == ["acme"]
    accounts.learn(Activity("acme", "", connections=1), 1_000.0)
    assert accounts.busy_accounts(2_000.0) == ["acme"]
    accounts.learn(Activity("acme", ""), 2_000.0)
    assert accounts.busy_accounts(2_001.0) == []
    accounts.charge(ACME, ASKED, 2_001.0)


def test_other_tasks_say_nothing_about_who_has_no_bounds() -> None:
    accounts = quotas()
    accounts.learn(Activity("other", "", requests=10**9, answers=10**9), 0.0)
    accounts.learn(Activity("acme/k1", "", requests=10**9), 0.0)
    assert len(accounts._accounts) == 0


NAME_OF_ANN = name_of_user("acme", "ann")


def users_of(accounts: Quotas, now: float) -> list[str]:
    return [name for name in accounts.busy_accounts(now) if name not in ("acme", "acme/k1")]


def test_a_user_who_has_used_a_quarter_of_a_bound_is_told_and_nobody_else_is() -> None:
    accounts = quotas(user=QuotaLimits(requests_per_minute=8, answers_at_once=100))
    accounts.charge(ANN, ASKED, 0.0).settle(100, 1, 0.0)
    accounts.charge(ACME, ASKED, 0.0)
    assert users_of(accounts, 0.0) == []
    accounts.charge(ANN, ASKED, 0.0).settle(100, 1, 0.0)
    assert users_of(accounts, 0.0) == [NAME_OF_ANN]
    assert "ann" not in NAME_OF_ANN.removeprefix("acme//")
    assert accounts.activity(NAME_OF_ANN)["requests"] == 2
    assert users_of(accounts, 60.0) == []


def test_a_user_is_told_who_asks_all_the_time_though_nothing_is_left_of_it() -> None:
    """At each of several tasks what it asks for has drained before the next comes."""
    accounts = quotas(user=QuotaLimits(requests_per_minute=60))
    for now in range(0, 120, 3):
        accounts.charge(ANN, ASKED, float(now)).settle(100, 1, float(now))
    assert left(accounts, ANN, 120.0) == {"user.requests_per_minute": 60}
    assert users_of(accounts, 120.0) == [NAME_OF_ANN]


@pytest.mark.parametrize("bound", ["answers_at_once", "connections"])
def test_a_user_is_told_of_what_there_is_at_once(bound: str) -> None:
    accounts = quotas(user=QuotaLimits(**{bound: 4}))
    has = accounts.charge(ANN, ASKED, 0.0) if bound == "answers_at_once" else None
    connection = connected(accounts, ANN)
    assert users_of(accounts, 1_000.0) == [NAME_OF_ANN]
    accounts.learn(Activity(NAME_OF_ANN, "", answers=3, connections=3), 1_000.0)
    assert refused_at_once(accounts, bound) == f"user.{bound}"
    # Once it has nothing itself, it is told as long as others have much.
    connection.close()
    if has is not None:
        has.release()
    assert users_of(accounts, 2_000.0) == [NAME_OF_ANN]
    accounts.learn(Activity(NAME_OF_ANN, ""), 2_000.0)
    assert users_of(accounts, 2_001.0) == []


def refused_at_once(accounts: Quotas, bound: str) -> object:
    if bound == "answers_at_once":
        return refused(accounts, ANN, now=1_000.0).extra["limit"]
    with pytest.raises(RateLimited) as refusal:
        accounts.check_connection(ANN)
    return refusal.value.extra["limit"]


def test_of_a_user_who_is_told_no_more_nothing_is_known_any_more() -> None:
    accounts = quotas(user=QuotaLimits(answers_at_once=5))
    charges = [accounts.charge(ANN, ASKED, 0.0) for _ in range(2)]
    accounts.learn(Activity(NAME_OF_ANN, "", answers=1), 0.0)
    for charge in charges:
        charge.release()
    assert users_of(accounts, 0.0) == []
    for _ in range(5):
        accounts.charge(ANN, ASKED, 0.0)


def test_so_many_users_are_told_those_who_have_used_most() -> None:
    accounts = quotas(user=QuotaLimits(requests_per_minute=10), most_users=1_000)
    for number in range(1_000):
        accounts.charge(Caller("acme", "", f"user {number}"), ASKED, 0.0)
    for number in range(100):
        for _ in range(4 if number % 2 else 2):
            accounts.charge(Caller("acme", "", f"user {number}"), ASKED, 0.0)
    told = users_of(accounts, 0.0)
    assert len(told) == MOST_REPORTED_USERS
    odd = {name_of_user("acme", f"user {number}") for number in range(1, 100, 2)}
    assert set(told) <= odd


def test_a_user_who_has_no_bound_any_more_is_not_told() -> None:
    tenants = Tenants(records=[Tenant(id="acme", user_limits=QuotaLimits(answers_at_once=2))])
    accounts = Quotas(tenants)
    accounts.charge(ANN, ASKED, 0.0)
    assert users_of(accounts, 0.0) == [NAME_OF_ANN]
    tenants.replace([Tenant(id="acme")])
    assert users_of(accounts, 0.0) == []
    accounts.learn(Activity(NAME_OF_ANN, "", answers=2), 0.0)
    assert accounts._users.of(NAME_OF_ANN).answers_on_other_nodes == 0


def test_a_bound_that_is_nearly_used_is_hinted_at_once_a_minute() -> None:
    accounts = quotas(QuotaLimits(requests_per_minute=10, tokens_per_minute=10**9))
    for _ in range(8):
        accounts.charge(ACME, ASKED, 0.0)
        assert accounts.hints(ACME, 0.0) == []
    accounts.charge(ACME, ASKED, 0.0)
    assert [state.limit for state in accounts.hints(ACME, 0.0)] == ["tenant.requests_per_minute"]
    for now in (1.0, 30.0, 59.9):
        accounts.learn(Activity("acme", "", requests=9), now)
        assert accounts.hints(ACME, now) == []
    accounts.learn(Activity("acme", "", requests=9), 60.0)
    assert len(accounts.hints(ACME, 60.0)) == 1


def test_a_record_that_changes_holds_from_the_next_message_on() -> None:
    tenants = Tenants()
    accounts = Quotas(tenants)
    accounts.charge(ACME, ASKED, 0.0)
    tenants.replace([Tenant(id="acme", limits=QuotaLimits(requests_per_minute=1))])
    accounts.charge(ACME, ASKED, 0.0)
    refused(accounts, ACME)
    tenants.replace([])
    accounts.charge(ACME, ASKED, 0.0)


def test_what_is_shared_is_counted_to_nobody() -> None:
    accounts = quotas(QuotaLimits(connections=1), user=QuotaLimits(connections=1))
    shared = Caller("acme", "", "", shared=True)
    for _ in range(3):
        connected(accounts, shared)
    connected(accounts, ANN)
