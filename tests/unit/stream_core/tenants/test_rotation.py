"""A key is followed by a new one, and for a while both are valid."""

from __future__ import annotations

import pytest

from evenflow.stream_core.tenants.budget import budgets_of
from evenflow.stream_core.tenants.rotation import KeyUnclear, rotated
from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Scope, Tenant

NOW, DAY = 1_800_000_000.0, 86_400.0
OLD = ApiKey.of_text(
    "old", "a", scopes=frozenset({Scope.API}), limits=QuotaLimits(requests_per_minute=3)
)
NEW = ApiKey.of_text("new", "b")
ACME = Tenant(id="acme", keys=(OLD,), weight=2)


def test_the_old_key_ends_after_the_overlap_and_the_new_one_may_what_it_may() -> None:
    after = rotated(ACME, NEW, now=NOW, overlap=DAY)
    old, new = after.keys
    assert old == OLD.model_copy(update={"expires_at": NOW + DAY})
    assert (new.id, new.digest, new.expires_at) == ("new", NEW.digest, None)
    assert (new.scopes, new.limits) == (OLD.scopes, OLD.limits)
    assert after.weight == 2


def test_what_the_old_key_has_used_is_used_for_all_that_follow_it() -> None:
    record = ACME
    for name in ("new", "newer"):
        key = ApiKey.of_text(name, name)
        record = rotated(record, key, now=NOW, overlap=DAY, key_id=record.keys[-1].id)
    assert [key.account_id for key in record.keys] == ["old"] * 3
    limits = QuotaLimits(tokens_per_day=5)
    keys = [key.model_copy(update={"limits": limits}) for key in record.keys]
    bounded = Tenant(id="acme", keys=tuple(keys))
    counters = {budgets_of(bounded, key.id, "", NOW)[0].counter for key in keys}
    assert len(counters) == 1
    assert Tenant.from_text(bounded.to_text()) == bounded


def test_without_an_overlap_the_old_key_is_gone_at_once() -> None:
    (new,) = rotated(ACME, NEW, now=NOW, overlap=0).keys
    assert (new.id, new.scopes) == ("new", OLD.scopes)


def test_a_key_that_is_being_replaced_already_keeps_its_end() -> None:
    first = rotated(ACME, NEW, now=NOW, overlap=DAY)
    second = rotated(first, ApiKey.of_text("newest", "c"), now=NOW + 60, overlap=2 * DAY)
    assert [(key.id, key.expires_at) for key in second.keys] == [
        ("old", NOW + DAY),
        ("new", NOW + 60 + 2 * DAY),
        ("newest", None),
    ]
    named = rotated(first, ApiKey.of_text("other", "d"), now=NOW, overlap=2 * DAY, key_id="old")
    assert [(key.id, key.expires_at) for key in named.keys] == [
        ("old", NOW + DAY),
        ("new", None),
        ("other", None),
    ]


def test_expired_keys_are_left_out_and_a_tenant_without_one_gets_a_key() -> None:
    expired = ACME.model_copy(update={"keys": (OLD.model_copy(update={"expires_at": NOW}),)})
    for tenant in (expired, Tenant(id="acme")):
        assert rotated(tenant, NEW, now=NOW, overlap=DAY).keys == (NEW,)


def test_where_several_may_be_meant_somebody_has_to_say_which() -> None:
    two = ACME.model_copy(update={"keys": (OLD, ApiKey.of_text("other", "e"))})
    with pytest.raises(KeyUnclear, match="has the keys old, other: say which one with --key"):
        rotated(two, NEW, now=NOW, overlap=DAY)
    with pytest.raises(KeyUnclear, match="no valid key nobody; it has old, other"):
        rotated(two, NEW, now=NOW, overlap=DAY, key_id="nobody")
    ends = [key.expires_at for key in rotated(two, NEW, now=NOW, overlap=DAY, key_id="old").keys]
    assert ends == [NOW + DAY, None, None]
