"""The port of tenants' reservations and usage.

What every implementation must guarantee (tests/integration/stores checks it):

- **Exact.** A counter is always the sum of the reservations and the usage of ended answers.
  Each method changes rows and counters together, or nothing.
- **No overrun.** No reservation is granted that would raise a counter above its bound, however many
  nodes reserve at once.
- **Once.** An answer has one usage record. One of a later epoch replaces it, one of an earlier
  epoch changes nothing, and a repetition changes nothing.
- **Reports delay nothing.** Totals are added up as answers end, so that a report reads a row for
  each day and model, and no answer waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from evenflow.stream_core.tenants.budget import Reservation, ReservationRequest
from evenflow.stream_core.tenants.usage import DayTotals, UsageRecord

KEPT_SECONDS = 90 * 86_400.0
"""How long usage records and totals are kept by default."""

COUNTERS_KEPT_SECONDS = 62 * 86_400.0
"""How long a counter is kept after its last change. That is longer than any period."""


class ReservationGone(Exception):
    """The reservation does not exist, or has changed. Nothing was changed."""


class UsageStore(Protocol):
    """The reservations and usage of all tenants. Days are in UTC: `2026-11-24`.

    Every method may raise StoreUnavailable.
    """

    async def reserve(self, ask: ReservationRequest) -> str | None:
        """Reserve, or reserve more.

        Returns:
            The counter that has no room for it: nothing was changed. None: it is granted.

        Raises:
            ReservationGone: the reservation to extend does not exist or has changed, or the new one
                exists already.
        """

    async def settle(self, record: UsageRecord, counters: Iterable[str] = ()) -> None:
        """Replace the reservation of an ended answer by its usage.

        Args:
            counters: those to which the answer counts if nothing was reserved for it.
        """

    async def release(self, tenant: str, response_id: str) -> None:
        """Release a reservation, because nothing was generated. Without one nothing changes."""

    async def reservations(self, tenant: str) -> Sequence[Reservation]:
        """The reservations of the tenant's answers."""

    async def reservation(self, tenant: str, response_id: str) -> Reservation | None:
        """The reservation of an answer. None: there is none."""

    async def answers_reserved(self, tenant: str) -> int:
        """The number of the tenant's answers with a reservation."""

    async def committed(self, tenant: str, counters: Iterable[str]) -> Mapping[str, int]:
        """The amounts spent and reserved, by counter. A counter with 0 may be missing."""

    async def totals(
        self, tenant: str, first_day: str, last_day: str, user: str | None = None
    ) -> Sequence[DayTotals]:
        """The totals of these days by day and model, in that order.

        Args:
            user: of this named user only.
        """

    async def records(self, tenant: str, day: str) -> Sequence[UsageRecord]:
        """The records of a day, in no order."""
