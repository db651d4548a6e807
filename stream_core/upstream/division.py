"""How tasks divide a server's slots: by the tenants that want them, each task by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from math import floor
from typing import NamedTuple, TypeVar

K = TypeVar("K")

# Sums of fractions that should be whole may be a little less.
_NOTHING = 1e-6
# A task whose tenants want little has so much of an equal part, for what is asked before all know.
_AT_LEAST = 0.5


def max_min(
    amount: float, wanted: Mapping[K, float], weight_of: Callable[[K], float] = lambda _: 1.0
) -> dict[K, float]:
    """Divide an amount by weights: who wants less than its part leaves the rest to the others."""
    weights = {key: weight_of(key) for key in wanted}
    left = sum(weights.values())
    shares = {}
    for key in sorted(wanted, key=lambda key: wanted[key] / weights[key]):
        shares[key] = min(wanted[key], amount * weights[key] / left) if left > 0 else 0.0
        amount, left = amount - shares[key], left - weights[key]
    return shares


class Division(NamedTuple):
    """What of a server's slots is for one task.

    `part`: in all, one at least. `of_tenants`: of each tenant that asks it. `want_much`: the
    tenants that want more than their share, at all tasks together.
    """

    part: int
    of_tenants: Mapping[str, float] = {}
    want_much: Collection[str] = ()


def divide_slots(
    slots: int,
    task: str,
    wanted: Mapping[str, Mapping[str, int]],
    weight_of: Callable[[str], float],
) -> Division:
    """Divide a server's slots among the tenants, and what a tenant has among the tasks it asks.

    So a tenant has no more for asking a task that others don't ask.

    Args:
        task: whose part is found.
        wanted: by tasks, and by the tenants of each, how many slots they could use. The task has
            its own there.
        weight_of: a tenant's weight.
    """
    of_all = Counter[str]()
    for of_tenants in wanted.values():
        of_all.update(of_tenants)
    shares = max_min(slots, of_all, weight_of)
    parts = {name: dict[str, float]() for name in sorted(wanted)}
    for tenant, share in shares.items():
        asks = {name: wants[tenant] for name, wants in wanted.items() if wants.get(tenant)}
        for name, part in max_min(share, asks).items():
            parts[name][tenant] = part
    # So that all parts together are all slots, where they are no whole numbers.
    before = sum(sum(of.values()) for name, of in parts.items() if name < task) + _NOTHING
    own = floor(before + sum(parts[task].values())) - floor(before)
    spare = floor(slots - sum(shares.values()) + _NOTHING)
    return Division(
        max(1, own + spare, int(_AT_LEAST * slots / len(wanted))),
        parts[task],
        {tenant for tenant, share in shares.items() if share < of_all[tenant]},
    )
