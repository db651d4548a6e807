"""How several nodes divide an upstream's concurrency limit, each by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import floor
from typing import NamedTuple, Self, TypeVar

from evenflow.stream_core.upstream.node_reports import ModelCallReport, NodeReport

K = TypeVar("K")

_NO_CALLS = ModelCallReport()
# Sums of fractions that should be whole may be a little less.
_ROUNDING = 1e-6
# The least share of a node with little demand, as a part of an equal share: for requests that come
# before all nodes have received its report.
_LEAST_OF_EQUAL = 0.5


def _equal(_tenant: str) -> float:
    return 1.0


def max_min(
    amount: float, wanted: Mapping[K, float], weight_of: Callable[[K], float] = lambda _: 1.0
) -> dict[K, float]:
    """Divide an amount by weighted max-min fairness: the others get what a share leaves unused."""
    weights = {key: weight_of(key) for key in wanted}
    left = sum(weights.values())
    shares = {}
    for key in sorted(wanted, key=lambda key: wanted[key] / weights[key]):
        shares[key] = min(wanted[key], amount * weights[key] / left) if left > 0 else 0.0
        amount, left = amount - shares[key], left - weights[key]
    return shares


class NodeShare(NamedTuple):
    """One node's share of a concurrency limit.

    `calls`: in all, one at least. `of_tenants`: by tenant with demand there. `heavy`: the tenants
    whose demand on all nodes is larger than their share.
    """

    calls: int
    of_tenants: Mapping[str, float] = {}
    heavy: Collection[str] = ()


def divide_limit(
    limit: int,
    node: str,
    wanted: Mapping[str, Mapping[str, int]],
    weight_of: Callable[[str], float],
) -> NodeShare:
    """Divide a concurrency limit among tenants, and each tenant's share among its nodes.

    Spreading over more nodes gives a tenant no larger share.

    Args:
        node: the node whose share is found.
        wanted: the calls that run or wait, by node and tenant, with this node's.
        weight_of: the weight of a tenant.
    """
    of_all = Counter[str]()
    for of_tenants in wanted.values():
        of_all.update(of_tenants)
    shares = max_min(limit, of_all, weight_of)
    by_node = {name: dict[str, float]() for name in sorted(wanted)}
    for tenant, share in shares.items():
        demand = {name: wants[tenant] for name, wants in wanted.items() if wants.get(tenant)}
        for name, calls in max_min(share, demand).items():
            by_node[name][tenant] = calls
    # The nodes' whole numbers add up to the limit.
    before = sum(sum(of.values()) for name, of in by_node.items() if name < node) + _ROUNDING
    own = floor(before + sum(by_node[node].values())) - floor(before)
    spare = floor(limit - sum(shares.values()) + _ROUNDING)
    return NodeShare(
        max(1, own + spare, int(_LEAST_OF_EQUAL * limit / len(wanted))),
        by_node[node],
        {tenant for tenant, share in shares.items() if share < of_all[tenant]},
    )


@dataclass(frozen=True, slots=True)
class CallsOnOtherNodes:
    """The calls of one model on other nodes, as they reported them last.

    Args:
        running: calls that have not ended.
        answered: the running calls that have a token.
        prompts: tokens of the prompts of running calls without a token.
        delay: of a first token, by each token of a prompt ahead of it, in seconds: the mean of all
            nodes, with this one. A node without a certain delay counts as 0, so that one wrong node
            changes little.
        limits: the concurrency limits of the nodes that have learned one.
        node: this one.
        wanted_by_node: the calls that run or wait, by node and tenant, with this node's.
            Empty: no other node calls the model.
        weight_of: the weight of a tenant.
        unreported_nodes: the number of other nodes that may call the model, and may not have
            reported it yet.
    """

    running: int = 0
    answered: int = 0
    prompts: int = 0
    delay: float = 0.0
    limits: tuple[int, ...] = ()
    node: str = ""
    wanted_by_node: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    weight_of: Callable[[str], float] = _equal
    unreported_nodes: int = 0

    @classmethod
    def of(
        cls,
        model: str,
        own: NodeReport,
        reports: Iterable[NodeReport],
        weight_of: Callable[[str], float] = _equal,
        called_before: bool = True,
    ) -> Self:
        """Add up the reported calls of a model.

        Args:
            own: this node's report, which is left out of `reports`.
            called_before: whether this node has had calls of the model for a second. Otherwise
                others may not have reported their demand yet.
        """
        other_reports = [each for each in reports if each.node != own.node]
        found = [(each.node, each.calls[model]) for each in other_reports if model in each.calls]
        if not found:
            # The next model may be called by all nodes at once.
            alone = called_before and model in own.calls
            return cls() if alone else cls(unreported_nodes=len(other_reports))
        calls = [calls for _, calls in found]
        return cls(
            sum(each.running for each in calls),
            sum(each.answered for each in calls),
            sum(each.prompts for each in calls),
            sum(each.delay for each in calls) / (len(found) + 1),
            tuple(each.limit for each in calls if each.limit is not None),
            own.node,
            {own.node: own.calls.get(model, _NO_CALLS).wanted}
            | {node: each.wanted for node, each in found},
            weight_of,
            0 if called_before else len(other_reports),
        )

    @property
    def limit(self) -> int | None:
        """The lowest limit that one of them has learned. None: none has learned one."""
        return min(self.limits, default=None)

    def divide(self, limit: int) -> NodeShare:
        """This node's share of a concurrency limit."""
        equal = max(1, limit // (1 + self.unreported_nodes))
        if not self.wanted_by_node:
            return NodeShare(equal)
        share = divide_limit(limit, self.node, self.wanted_by_node, self.weight_of)
        return share._replace(calls=min(equal, share.calls))

    def any_waits(self, counts: Callable[[str], bool]) -> bool:
        """Whether counted tenants wait on other nodes: their demand there exceeds the calls."""
        demands = self.wanted_by_node.items()
        wants = (of.items() for node, of in demands if node != self.node)
        return sum(n for of in wants for tenant, n in of if counts(tenant)) > self.running

    def equal_part(self, amount: int) -> int:
        """This node's part of an amount that all nodes divide equally. The parts add up to it."""
        if not self.wanted_by_node:
            return max(1, amount // (1 + self.unreported_nodes))
        names = sorted(self.wanted_by_node)
        rank, nodes = names.index(self.node), len(names)
        return amount * (rank + 1) // nodes - amount * rank // nodes
