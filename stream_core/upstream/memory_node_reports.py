"""The reports of nodes, in the memory of one process."""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.stream_core.upstream.node_reports import KEPT_SECONDS, NodeReport


class MemoryNodeReports:
    """Reports in memory (`NodeReports`)."""

    def __init__(self) -> None:
        self._reports: dict[str, tuple[NodeReport, float]] = {}

    async def publish(self, report: NodeReport, now: float) -> None:
        self._reports = {node: row for node, row in self._reports.items() if row[1] > now}
        self._reports[report.node] = report, now + KEPT_SECONDS

    async def read_all(self, now: float) -> Sequence[NodeReport]:
        return [report for report, until in self._reports.values() if until > now]
