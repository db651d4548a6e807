"""The port by which tasks tell each other what they do for each tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

KEPT_SECONDS = 60.0
"""How long a row is kept after it was written."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What one task has done for one tenant since the task was started, and does now.

    Args:
        tenant: its id; `id/key` for what one of its keys has used, `id//digest` for one of its
            users.
        service: weighted tokens that were charged, in and out, with those that are expected.
        requests, input_tokens, output_tokens: that were charged to bounds, without what went back.
        answers, connections: how many there are now.
        expected: the part of the service that the answers that run are still to be given.
    """

    tenant: str
    task: str
    service: float = 0.0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    answers: int = 0
    connections: int = 0
    expected: float = 0.0


class TenantActivity(Protocol):
    """One row a tenant and task. `now` is in seconds since the epoch.

    Every method may raise StoreUnavailable.
    """

    async def note(self, rows: Sequence[Activity], now: float) -> None:
        """Write the rows of this task over its earlier ones. They expire after a minute."""

    async def of(self, tenants: Sequence[str], now: float) -> Sequence[Activity]:
        """The rows of these tenants that have not expired, of all tasks."""
