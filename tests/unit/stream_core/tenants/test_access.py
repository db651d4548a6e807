from __future__ import annotations

import pytest

from evenflow.stream_core.base.errors import NotPermitted, OriginNotAllowed
from evenflow.stream_core.tenants.access import check_origin, check_scope, usable_models
from evenflow.stream_core.tenants.tenant import ApiKey, Scope, Tenant


@pytest.mark.parametrize(
    ("scopes", "may"),
    [
        ([], []),
        ([Scope.SESSIONS], [Scope.SESSIONS]),
        ([Scope.API], [Scope.API, Scope.READ]),
        ([Scope.READ], [Scope.READ]),
        (list(Scope), list(Scope)),
    ],
)
def test_a_key_does_what_its_scopes_say_and_who_asks_may_read(
    scopes: list[Scope], may: list[Scope]
) -> None:
    key = ApiKey.of_text("k1", "evf_1", scopes=frozenset(scopes))
    for scope in Scope:
        if scope in may:
            check_scope(key, scope)
            continue
        with pytest.raises(NotPermitted, match=f"this needs {scope}") as refused:
            check_scope(key, scope)
        assert refused.value.code == "key_scope"


def test_a_tenant_without_origins_is_used_by_any_page() -> None:
    check_origin(Tenant(id="acme"), "https://anybody.example")


def test_a_tenants_origins_are_all_whose_pages_use_its_keys() -> None:
    tenant = Tenant(id="acme", origins=("https://acme.example",))
    check_origin(tenant, None)
    check_origin(tenant, "https://acme.example")
    for origin in ("https://acme.example.evil", "http://acme.example", "null", ""):
        with pytest.raises(OriginNotAllowed):
            check_origin(tenant, origin)


def test_a_tenants_models_are_those_of_the_node_that_it_may_use() -> None:
    assert usable_models(Tenant(id="acme"), ("a", "b")) == ("a", "b")
    assert usable_models(Tenant(id="acme", models=("b", "c")), ("a", "b")) == ("b",)
