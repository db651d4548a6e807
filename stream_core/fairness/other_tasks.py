"""What other tasks have done for each tenant, from the rows by which they tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stream_core.ports.tenant_activity import Activity

_FIRST_READINGS = 2


class OtherTasks:
    """The growth of other tasks' counts, from one reading to the next.

    A row that is new says nothing about now: what it has counted may be long ago. So may be what
    comes in the first second in which a tenant is read: its tasks have not told it before.

    Args:
        task: this one, whose own rows are left out.
    """

    def __init__(self, task: str) -> None:
        self._task = task
        self._known: dict[tuple[str, str], Activity] = {}
        self._readings: dict[str, int] = {}

    def read(self, tenants: Iterable[str], rows: Iterable[Activity]) -> Mapping[str, Activity]:
        """What the others have done for each of these tenants since the last reading.

        `answers` and `connections` are those that they have now.

        Args:
            rows: all that there are of these tenants. Other tenants' earlier rows are forgotten.
        """
        sums = {tenant: Activity(tenant, "") for tenant in tenants}
        self._readings = {tenant: self._readings.get(tenant, 0) + 1 for tenant in sums}
        found = {(row.tenant, row.task): row for row in rows if row.task != self._task}
        for key, row in found.items():
            is_steady = self._readings[row.tenant] > _FIRST_READINGS
            before = self._known.get(key, row) if is_steady else row
            sums[row.tenant] = _with(sums[row.tenant], row, before)
        self._known = found
        return sums


def _with(whole: Activity, row: Activity, before: Activity) -> Activity:
    return Activity(
        whole.tenant,
        whole.task,
        # Estimates that were too high are set right, and what goes back has to go back everywhere.
        whole.service + row.service - before.service,
        whole.requests + row.requests - before.requests,
        whole.input_tokens + row.input_tokens - before.input_tokens,
        whole.output_tokens + row.output_tokens - before.output_tokens,
        whole.answers + row.answers,
        whole.connections + row.connections,
    )
