"""Finds the tenants over their share of a node's deliveries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

# Hysteresis: a tenant counts as over its share from the first factor on, until it is below the
# second one.
_OVER, _STILL_OVER = 1.25, 1.05


def over_their_share(
    delivered: Mapping[str, float],
    weight_of: Callable[[str], float],
    before: Collection[str] = frozenset(),
) -> frozenset[str]:
    """The tenants at least a quarter over their share. Never all of them.

    A tenant's share is the part of its weight in the weights of all tenants with readers.

    Args:
        delivered: the number of readers, by tenant.
        before: the tenants that were over their share before.
    """
    weights = {tenant: weight_of(tenant) for tenant in delivered}
    per_weight = sum(delivered.values()) / max(sum(weights.values()), 1e-9)
    return frozenset(
        tenant
        for tenant, readers in delivered.items()
        if readers > weights[tenant] * per_weight * (_STILL_OVER if tenant in before else _OVER)
    )
