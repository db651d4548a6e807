"""What other tasks do for tenants, so that a tenant's bounds hold over all tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from stream_core.ports.tenant_activity import Activity
from stream_core.tenants.quotas import Quotas
from stream_core.tenants.rates import Amount


class OtherTasks:
    """Counts what other tasks charge to a tenant's bounds here.

    What a task had charged when it was first heard of is not counted: it may be hours old.

    Args:
        task: this one's name in the rows.
    """

    def __init__(self, quotas: Quotas, task: str) -> None:
        self._quotas = quotas
        self._task = task
        self._known: dict[str, dict[str, Amount]] = {}

    def told(self, tenants: Sequence[str], rows: Iterable[Activity], now: float) -> None:
        """Take the rows of these tenants, of all tasks. Other tenants are forgotten.

        Args:
            now: seconds, as in `Quotas`.
        """
        by_tenant: dict[str, list[Activity]] = defaultdict(list)
        for row in rows:
            if row.task != self._task:
                by_tenant[row.tenant].append(row)
        self._known = {tenant: self._of(tenant, by_tenant[tenant], now) for tenant in tenants}

    def _of(self, tenant: str, rows: Sequence[Activity], now: float) -> dict[str, Amount]:
        """Count the rows of one tenant. Returns what each task has charged."""
        before = self._known.get(tenant, {})
        charged = {
            row.task: Amount(row.requests, row.input_tokens, row.output_tokens) for row in rows
        }
        for task, amount in charged.items():
            grown = amount.minus(before.get(task, amount))
            self._quotas.charge_others(tenant, grown, now)
        self._quotas.others(
            tenant,
            answers=sum(row.answers for row in rows),
            connections=sum(row.connections for row in rows),
        )
        return charged
