"""What this task charges to bounds of tenants and keys, for other tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.stream_core.tenants.tenant_activity import Activity


class QuotaActivity:
    """Counts all of `Activity` but the service, of tenants and keys that have bounds, and of the
    users who have used most of theirs. There may be thousands, and a browser stays with its task.
    """

    def __init__(self, context: NodeContext) -> None:
        self._quotas = context.quotas
        self._monotonic = context.monotonic

    def compared(self) -> Collection[str]:
        """Those that have used of their bounds lately."""
        return self._quotas.busy(self._monotonic())

    def counted(self, tenant: str) -> Mapping[str, float]:
        """What this task has charged, and has now."""
        return self._quotas.activity(tenant)

    def learned(self, others: Activity) -> None:
        """Count what other tasks have charged, and have now."""
        self._quotas.learned(others, self._monotonic())
