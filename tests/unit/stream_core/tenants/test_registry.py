"""Whose key a key is, when none is needed, and what records say."""

from __future__ import annotations

import pytest

from evenflow.stream_core.base.errors import AuthenticationFailed, EvenflowError
from evenflow.stream_core.tenants.registry import KnownKey, Tenants
from evenflow.stream_core.tenants.tenant import NO_LIMITS, ApiKey, QuotaLimits, Tenant, new_key
from evenflow.stream_core.tenants.tenant_store import StoredTenants

ACME, ZETA = "acme-key-0123456789", "zeta-key-0123456789"
NOW = 1_795_251_600.0


def tenant_of(tenants: Tenants, given: str | None) -> str | None:
    known = tenants.with_key(given, NOW)
    return None if known is None else known.tenant.id


def refusal_of(tenants: Tenants, tenant_id: str, key_id: str) -> str:
    with pytest.raises(EvenflowError) as refused:
        tenants.check_valid(tenant_id, key_id)
    return refused.value.code


def test_a_key_is_its_tenants() -> None:
    tenants = Tenants({"acme": ACME, "zeta": ZETA})
    assert (tenant_of(tenants, ACME), tenant_of(tenants, ZETA)) == ("acme", "zeta")


@pytest.mark.parametrize("given", [None, "", ACME[:-1], ACME + "0", "\udc80"])
def test_any_other_is_nobodys(given: str | None) -> None:
    assert tenant_of(Tenants({"acme": ACME}), given) is None


def test_given_keys_are_replaced_as_a_whole() -> None:
    tenants = Tenants({"acme": ACME})
    tenants.replace_configured_keys({"zeta": ZETA})
    assert (tenant_of(tenants, ACME), tenant_of(tenants, ZETA)) == (None, "zeta")


def test_nobody_needs_a_key_where_it_is_known_that_no_tenant_ever_had_one() -> None:
    assert Tenants().open_to_all
    assert not Tenants({"acme": ACME}).open_to_all
    assert not Tenants(known=False).open_to_all
    assert not Tenants(closed=True).open_to_all
    assert Tenants(records=[Tenant(id="acme", weight=2)]).open_to_all


@pytest.mark.parametrize("name", ["acme", "public", "other"])
def test_from_the_first_key_on_no_session_is_open_and_none_opens_when_the_key_is_gone(
    name: str,
) -> None:
    key = ApiKey.of_text("k1", ACME)
    by_record, by_setting, of_before = Tenants(), Tenants({"acme": ACME}), Tenants()
    assert by_record.is_open(name)
    by_record.replace([Tenant(id="acme", keys=(key,))])
    assert not by_record.is_open(name)
    by_record.replace([], removed={"acme"}, closed=True)
    by_setting.replace_configured_keys({})
    of_before.replace([], closed=True)  # another process has removed the last one
    for closed in (by_record, by_setting, of_before):
        assert not closed.is_open(name)
        assert closed.is_shut


def test_a_tenant_is_open_where_its_record_or_a_setting_says_so() -> None:
    keys = {"public": ZETA, "acme": ACME}
    by_setting = Tenants(keys, open_tenant="public")
    by_record = Tenants(keys, [Tenant(id="public", open=True)])
    for tenants in (by_setting, by_record):
        assert tenants.is_open("public")
        assert not tenants.is_open("acme")
        assert not tenants.open_to_all, "names of others are still not anybody's"
        assert not tenants.is_shut
        assert tenant_of(tenants, ZETA) == "public", "and its key is one"
        tenants.check_valid("public", "")
    assert not Tenants(keys, open_tenant="public", identified=True).is_open("public")


def test_what_was_opened_without_a_key_ends_when_one_is_needed() -> None:
    tenants = Tenants()
    tenants.check_valid("made-up", "")
    tenants.replace([Tenant(id="acme", keys=(ApiKey.of_text("k1", ACME),))])
    for name in ("made-up", "public", "acme"):
        with pytest.raises(AuthenticationFailed) as refused:
            tenants.check_valid(name, "")
        assert refused.value.code == "token_revoked"
    Tenants(records=tenants.records, identified=True).check_valid("acme", "")


def test_what_a_key_opened_ends_when_it_expires_or_is_gone() -> None:
    now = NOW
    expiring = ApiKey.of_text("k1", ACME, expires_at=NOW + 10)
    lasting = ApiKey.of_text("k2", ZETA)
    tenants = Tenants(records=[Tenant(id="acme", keys=(expiring, lasting))], wall_time=lambda: now)
    for key in ("k1", "k2"):
        tenants.check_valid("acme", key)
    now += 10
    assert refusal_of(tenants, "acme", "k1") == "token_revoked"
    tenants.check_valid("acme", "k2")
    tenants.replace([Tenant(id="acme", keys=(expiring,))])
    assert refusal_of(tenants, "acme", "k2") == "token_revoked"


def test_a_key_that_was_never_seen_counts_until_the_records_were_read_twice_more() -> None:
    tenants = Tenants(records=[Tenant(id="acme", keys=(ApiKey.of_text("k1", ACME),))])
    for _ in range(2):
        tenants.check_valid("acme", "newer")
        tenants.check_valid("newer", "k1")
        tenants.note_read()
    assert refusal_of(tenants, "acme", "newer") == "token_revoked"
    assert refusal_of(tenants, "newer", "k1") == "tenant_removed"
    tenants.replace([Tenant(id="acme", keys=(ApiKey.of_text("newer", ZETA),))])
    tenants.check_valid("acme", "newer")


@pytest.mark.parametrize("identified", [False, True])
@pytest.mark.parametrize("key", ["", "k1"])
def test_nothing_of_a_removed_tenant_is_left_until_it_is_there_again(
    identified: bool, key: str
) -> None:
    record = Tenant(id="acme", keys=(ApiKey.of_text("k1", ACME),))
    tenants = Tenants(records=[record], identified=identified)
    tenants.replace([], removed={"acme"}, closed=True)
    assert refusal_of(tenants, "acme", key) == "tenant_removed"
    again = Tenant(id="acme", keys=(ApiKey.of_text("k2", ZETA),))
    tenants.replace([again])
    tenants.check_valid("acme", "k2")
    assert refusal_of(tenants, "acme", "k1") == "token_revoked", "its old key stays revoked"
    tenants.replace([record])
    tenants.check_valid("acme", "k1")


def test_a_tenant_of_the_settings_whose_key_is_gone_is_removed() -> None:
    tenants = Tenants({"acme": ACME, "zeta": ZETA})
    tenants.check_valid("acme", "given")
    tenants.replace_configured_keys({"zeta": ZETA})
    assert refusal_of(tenants, "acme", "given") == "tenant_removed"


def test_where_a_claim_names_the_tenant_it_needs_a_record_once_there_are_records() -> None:
    record = Tenant(id="acme", keys=(ApiKey.of_text("k1", ACME),))
    tenants = Tenants({"zeta": ZETA}, identified=True, claimed=True)
    tenants.check_served("globex")
    tenants.replace([record])
    for known in ("acme", "zeta"):
        tenants.check_served(known)
    assert refusal_of(tenants, "globex", "") == "tenant_unknown"
    tenants.replace([], closed=True)
    assert refusal_of(tenants, "globex", "") == "tenant_unknown"
    Tenants(records=[record], identified=True).check_served("globex")


def test_keys_of_a_record_hold_until_they_expire() -> None:
    old = ApiKey.of_text("old", ACME, expires_at=NOW)
    next_key = ApiKey.of_text("next", ZETA, expires_at=NOW + 1)
    acme = Tenant(id="acme", keys=(old, next_key))
    tenants = Tenants(records=[acme])
    assert tenants.with_key(ACME, NOW) is None
    assert tenants.with_key(ACME, NOW - 1) == KnownKey(acme, old)
    assert tenants.with_key(ZETA, NOW) == KnownKey(acme, next_key)


def test_a_tenant_without_a_record_has_no_bounds() -> None:
    assert Tenants().of("acme") == Tenant(id="acme")


def test_a_record_goes_through_a_store_and_has_no_secret() -> None:
    key_id, text = new_key()
    tenant = Tenant(
        id="acme",
        keys=(ApiKey.of_text(key_id, text),),
        weight=2,
        limits=QuotaLimits(tokens_per_minute=100_000),
    )
    stored = tenant.to_text()
    assert Tenant.from_text(stored) == tenant
    assert text.startswith(f"evf_{key_id}_")
    assert text.removeprefix(f"evf_{key_id}_") not in stored


def test_a_key_that_is_taken_away_opens_nothing_and_bounds_the_sessions_that_it_opened() -> None:
    one = QuotaLimits(requests_per_minute=1)
    kept = ApiKey.of_text("k1", "kept")
    tenants = Tenants(
        records=[Tenant(id="a", keys=(kept, ApiKey.of_text("k2", "gone", limits=one)))]
    )
    for _ in range(2):
        tenants.replace([Tenant(id="a", keys=(kept,))])
    assert tenants.with_key("gone", 0.0) is None
    assert {key.id: key.limits for key in tenants.of("a").keys} == {"k1": NO_LIMITS, "k2": one}
    tenants.replace([])
    tenants.replace([Tenant(id="a", keys=(kept,))])
    assert len(tenants.of("a").keys) == 1


def test_a_store_tells_that_it_had_tenants_also_if_an_older_version_removed_them() -> None:
    acme, gone = Tenant(id="acme"), Tenant(id="gone", removed=True)
    assert StoredTenants.of([acme, gone], 3) == StoredTenants((acme,), 3, frozenset({"gone"}))
    assert StoredTenants.of([acme, gone], 3).had_tenants
    assert StoredTenants((), 2).had_tenants
    assert not StoredTenants().had_tenants
    assert not StoredTenants((acme,), 1).had_tenants, "a record without a key closes nothing"
