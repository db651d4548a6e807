"""Checks a key's scopes, and the origins and models of a tenant's record."""

from __future__ import annotations

from collections.abc import Iterable

from evenflow.stream_core.auth.allowed_origins import AllowedOrigins
from evenflow.stream_core.base.errors import NotPermitted, OriginNotAllowed
from evenflow.stream_core.tenants.tenant import ApiKey, Scope, Tenant


def check_scope(key: ApiKey, needed: Scope) -> None:
    """Check that a key has the scope that a call needs.

    Raises:
        NotPermitted: it has other scopes.
    """
    if not key.may(needed):
        raise NotPermitted(
            f"key {key.id!r} is for {', '.join(sorted(key.scopes)) or 'nothing'}, and this needs "
            f"{needed}; nothing was done, use a key with that scope",
            code="key_scope",
        )


def check_origin(tenant: Tenant, origin: str | None) -> None:
    """Check the origin of a page that uses a tenant's key or token.

    Args:
        origin: of a page that is not the server's own. None: there is none.

    Raises:
        OriginNotAllowed: the tenant names origins, and not this one.
    """
    if origin is not None and tenant.origins and not AllowedOrigins(tenant.origins).admits(origin):
        raise OriginNotAllowed(
            f"pages of {origin[:100]} may not use a key or a token of tenant {tenant.id!r}; "
            "nothing was done, its record names the origins that may",
            code="origin_not_allowed",
        )


def usable_models(tenant: Tenant, models: Iterable[str]) -> tuple[str, ...]:
    """Those of the models that the tenant's requests may name."""
    return tuple(name for name in models if not tenant.models or name in tenant.models)
