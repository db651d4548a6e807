"""Which calls tasks make, in the memory of one process."""

from __future__ import annotations

from collections.abc import Sequence

from evenflow.stream_core.upstream.task_calls import KEPT_SECONDS, TaskCalls


class MemoryCallsOfTasks:
    """The calls of tasks in memory (`CallsOfTasks`)."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[TaskCalls, float]] = {}

    async def tell(self, row: TaskCalls, now: float) -> None:
        self._rows = {task: row for task, row in self._rows.items() if row[1] > now}
        self._rows[row.task] = row, now + KEPT_SECONDS

    async def all(self, now: float) -> Sequence[TaskCalls]:
        return [row for row, until in self._rows.values() if until > now]
