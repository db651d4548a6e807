"""Who takes more than their share of a node's deliveries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

# Who has about its share is not over it, and who is over it stays so until it has about its share:
# nobody goes to and fro.
_OVER, _STILL_OVER = 1.25, 1.05


def over_their_share(
    delivered: Mapping[str, float],
    weight_of: Callable[[str], float],
    before: Collection[str] = frozenset(),
) -> frozenset[str]:
    """The tenants that take a quarter more than their share, or more. Never all of them.

    A tenant's share is that of its weight among those that are delivered to.

    Args:
        delivered: to how many readers of each tenant.
        before: who was over its share.
    """
    weights = {tenant: weight_of(tenant) for tenant in delivered}
    for_a_weight = sum(delivered.values()) / max(sum(weights.values()), 1e-9)
    return frozenset(
        tenant
        for tenant, readers in delivered.items()
        if readers > weights[tenant] * for_a_weight * (_STILL_OVER if tenant in before else _OVER)
    )
