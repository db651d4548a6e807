"""The activity of other nodes for each tenant, from one report to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from evenflow.stream_core.tenants.tenant_activity import Activity

_FIRST_READINGS = 2
# A tenant that is missing from this many readings was idle.
_READINGS_MISSED = 10


@dataclass(slots=True)
class _TenantReadings:
    """The readings of one tenant: their number, those missed since, and its last rows by node."""

    readings: int = 0
    missed: int = 0
    rows: Mapping[str, Activity] = field(default_factory=dict)


class ActivityOnOtherNodes:
    """The growth of other nodes' counts, from one reading to the next.

    A new row may have old counts, so only its expected service of running answers counts. The same
    holds for a tenant's first two readings, since nodes report it only from then on.

    Args:
        node: this node. Its rows are left out.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._known: dict[str, _TenantReadings] = {}

    def read(self, tenants: Iterable[str], rows: Iterable[Activity]) -> Mapping[str, Activity]:
        """What other nodes have done for each of these tenants since the last reading.

        `answers` and `connections` are their current numbers.

        Args:
            rows: all rows of these tenants. Those of a tenant that is not read are forgotten
                after ten readings.
        """
        found: dict[str, dict[str, Activity]] = {tenant: {} for tenant in tenants}
        for row in rows:
            if row.node != self._node:
                found[row.tenant][row.node] = row
        self._forget(found)
        return {tenant: self._read(tenant, by_node) for tenant, by_node in found.items()}

    def _read(self, tenant: str, rows: Mapping[str, Activity]) -> Activity:
        known = self._known.setdefault(tenant, _TenantReadings())
        known.readings, known.missed = known.readings + 1, 0
        whole = Activity(tenant, "")
        for row in rows.values():
            before = known.rows.get(row.node)
            if before is None or known.readings <= _FIRST_READINGS:
                counted = 0.0 if before is None else before.expected
                before = replace(row, service=row.service - row.expected + counted)
            whole = _add_growth(whole, row, before)
        known.rows = rows
        return whole

    def _forget(self, read: Mapping[str, object]) -> None:
        for tenant in [*self._known.keys() - read.keys()]:
            self._known[tenant].missed += 1
            if self._known[tenant].missed > _READINGS_MISSED:
                del self._known[tenant]


def _add_growth(whole: Activity, row: Activity, before: Activity) -> Activity:
    return Activity(
        whole.tenant,
        whole.node,
        # May be negative: an estimate was too high, or service was given back.
        service=whole.service + row.service - before.service,
        requests=whole.requests + row.requests - before.requests,
        input_tokens=whole.input_tokens + row.input_tokens - before.input_tokens,
        output_tokens=whole.output_tokens + row.output_tokens - before.output_tokens,
        answers=whole.answers + row.answers,
        connections=whole.connections + row.connections,
    )
