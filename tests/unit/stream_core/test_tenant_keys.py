"""Whose key a key is, and when none is needed."""

from __future__ import annotations

import pytest

from stream_core.policy.session_token import TenantKeys

ACME, ZETA = "acme-key-0123456789", "zeta-key-0123456789"


def test_a_key_is_its_tenants() -> None:
    keys = TenantKeys({"acme": ACME, "zeta": ZETA})
    assert (keys.tenant_of(ACME), keys.tenant_of(ZETA)) == ("acme", "zeta")


@pytest.mark.parametrize("given", [None, "", ACME[:-1], ACME + "0", "\udc80"])
def test_any_other_is_nobodys(given: str | None) -> None:
    assert TenantKeys({"acme": ACME}).tenant_of(given) is None


def test_keys_are_replaced_as_a_whole() -> None:
    keys = TenantKeys({"acme": ACME})
    keys.replace({"zeta": ZETA})
    assert (keys.tenant_of(ACME), keys.tenant_of(ZETA), keys.by_tenant) == (
        None,
        "zeta",
        {"zeta": ZETA},
    )


def test_nobody_needs_a_key_where_it_is_known_that_no_tenant_has_one() -> None:
    assert TenantKeys({}).open_to_all
    assert not TenantKeys({"acme": ACME}).open_to_all
    assert not TenantKeys({}, known=False).open_to_all
