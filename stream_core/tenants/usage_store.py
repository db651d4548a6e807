"""The port of what tenants have reserved and used.

What every implementation must guarantee (tests/integration/stores checks it):

- **Exact.** A counter is always the sum of what is reserved and what was counted of ended answers.
  Each method changes rows and counters together, or nothing.
- **No overrun.** No reservation is granted by which a counter would be above its bound, however
  many tasks ask at once.
- **Once.** An answer has one usage record. One of a later epoch takes its place, one of an earlier
  epoch changes nothing, and a repetition changes nothing.
- **Reports delay nothing.** Totals are added up as answers end, so that a report reads a row for
  each day and model, and no answer waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from evenflow.stream_core.tenants.budget import Ask, Reservation
from evenflow.stream_core.tenants.usage import DayTotals, UsageRecord

KEPT_SECONDS = 90 * 86_400.0
"""How long usage records and totals are kept, where no setting says otherwise."""

COUNTERS_KEPT_SECONDS = 62 * 86_400.0
"""How long a counter is kept after its last change. That is longer than any period."""


class ReservationGone(Exception):
    """The reservation is not there, or not as it is said to be. Nothing was changed."""


class UsageStore(Protocol):
    """What the tenants of all tasks have reserved and used. Days are of UTC: `2026-11-24`.

    Every method may raise StoreUnavailable.
    """

    async def reserve(self, ask: Ask) -> str | None:
        """Reserve, or reserve more.

        Returns:
            The counter that has no room for it, and then nothing was changed. None: it is granted.

        Raises:
            ReservationGone: the reservation that was to grow is not there as it was, or one that
                was to be made is there already.
        """

    async def settle(self, record: UsageRecord, counters: Iterable[str] = ()) -> None:
        """Put what an ended answer used in the place of its reservation.

        Args:
            counters: the answer counts to these if nothing was reserved for it.
        """

    async def release(self, tenant: str, response_id: str) -> None:
        """Give a reservation back, because nothing was generated. Without one nothing changes."""

    async def reservations(self, tenant: str) -> Sequence[Reservation]:
        """All that is reserved for the tenant's answers."""

    async def reservation(self, tenant: str, response_id: str) -> Reservation | None:
        """What is reserved for an answer. None: nothing is."""

    async def answers_reserved(self, tenant: str) -> int:
        """How many of the tenant's answers have something reserved."""

    async def committed(self, tenant: str, counters: Iterable[str]) -> Mapping[str, int]:
        """What is spent and reserved, by counter. A counter without anything may be missing."""

    async def totals(
        self, tenant: str, first_day: str, last_day: str, user: str | None = None
    ) -> Sequence[DayTotals]:
        """The totals of these days by day and model, in that order.

        Args:
            user: those of this named user alone.
        """

    async def records(self, tenant: str, day: str) -> Sequence[UsageRecord]:
        """The records of a day, in no order."""
