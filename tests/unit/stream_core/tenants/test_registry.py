"""Whose key a key is, when none is needed, and what records say."""

from __future__ import annotations

import pytest

from evenflow.stream_core.tenants.registry import KnownKey, Tenants
from evenflow.stream_core.tenants.tenant import NO_LIMITS, ApiKey, QuotaLimits, Tenant, new_key

ACME, ZETA = "acme-key-0123456789", "zeta-key-0123456789"
NOW = 1_795_251_600.0


def tenant_of(tenants: Tenants, given: str | None) -> str | None:
    known = tenants.with_key(given, NOW)
    return None if known is None else known.tenant.id


def test_a_key_is_its_tenants() -> None:
    tenants = Tenants({"acme": ACME, "zeta": ZETA})
    assert (tenant_of(tenants, ACME), tenant_of(tenants, ZETA)) == ("acme", "zeta")


@pytest.mark.parametrize("given", [None, "", ACME[:-1], ACME + "0", "\udc80"])
def test_any_other_is_nobodys(given: str | None) -> None:
    assert tenant_of(Tenants({"acme": ACME}), given) is None


def test_given_keys_are_replaced_as_a_whole() -> None:
    tenants = Tenants({"acme": ACME})
    tenants.replace_given_keys({"zeta": ZETA})
    assert (tenant_of(tenants, ACME), tenant_of(tenants, ZETA)) == (None, "zeta")
    assert (tenants.needs_key("acme"), tenants.needs_key("zeta")) == (False, True)


def test_nobody_needs_a_key_where_it_is_known_that_no_tenant_has_one() -> None:
    assert Tenants().open_to_all
    assert not Tenants({"acme": ACME}).open_to_all
    assert not Tenants(known=False).open_to_all
    assert Tenants(records=[Tenant(id="acme", weight=2)]).open_to_all


def test_the_open_tenant_needs_no_key_though_it_has_one_unless_callers_are_identified() -> None:
    keys = {"public": ZETA, "acme": ACME}
    tenants = Tenants(keys, open_tenant="public")
    assert not tenants.needs_key("public")
    assert tenants.needs_key("acme")
    assert not tenants.open_to_all, "names of others are still not anybody's"
    assert tenant_of(tenants, ZETA) == "public", "and its key is one"
    assert Tenants(keys).needs_key("public")
    assert Tenants(keys, open_tenant="public", identified=True).needs_key("public")


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
