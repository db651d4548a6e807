"""What tenants have reserved and used, in the memory of one process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evenflow.stream_core.tenants.budget import (
    Reservation,
    ReservationRequest,
    settlement,
    without_room,
)
from evenflow.stream_core.tenants.usage import DayTotals, UsageRecord, summed, totals_of
from evenflow.stream_core.tenants.usage_store import KEPT_SECONDS, ReservationGone


@dataclass(slots=True)
class _Used:
    record: UsageRecord
    counted: Mapping[str, int]


@dataclass(slots=True)
class _AccountUsage:
    """All of one tenant.

    Args:
        totals: of each user, by day and model. Those of all users have an empty name.
    """

    counters: Counter[str] = field(default_factory=Counter)
    reserved: dict[str, Reservation] = field(default_factory=dict)
    used: dict[str, _Used] = field(default_factory=dict)
    totals: dict[str, dict[tuple[str, str], DayTotals]] = field(default_factory=dict)

    def add_to_totals(self, record: UsageRecord, times: int = 1) -> None:
        """Add a record to the totals of its day and model. With `times=-1`, subtract it."""
        added = totals_of(record)
        place = added.day, added.model
        for user in {"", record.user}:
            totals = self.totals.setdefault(user, {})
            totals[place] = totals.get(place, DayTotals(*place)).plus(added, times)
            if not totals[place].answers:
                del totals[place]
            if not totals:
                del self.totals[user]


class MemoryUsageStore:
    """What tenants have reserved and used, in memory (`UsageStore`).

    Args:
        kept_seconds: how long usage records are kept.
    """

    def __init__(self, kept_seconds: float = KEPT_SECONDS) -> None:
        self._accounts: defaultdict[str, _AccountUsage] = defaultdict(_AccountUsage)
        self._kept_seconds = kept_seconds

    async def reserve(self, ask: ReservationRequest) -> str | None:
        wanted = ask.wanted
        account = self._accounts[wanted.tenant]
        if account.reserved.get(wanted.response_id) != ask.before:
            raise ReservationGone(f"the reservation of {wanted.response_id} is another one")
        (full,) = without_room([ask], account.counters)
        if full is None:
            account.counters.update(ask.added)
            account.reserved[wanted.response_id] = wanted
        return full

    async def settle(self, record: UsageRecord, counters: Iterable[str] = ()) -> None:
        account = self._accounts[record.tenant]
        before = account.used.get(record.response_id)
        if before is not None and before.record.epoch > record.epoch:
            return
        reserved = account.reserved.pop(record.response_id, None)
        settled = settlement(
            record.cost,
            counters,
            None if reserved is None else reserved.amounts,
            None if before is None else before.counted,
        )
        account.counters.update(settled.changes)
        if before is not None:
            account.add_to_totals(before.record, times=-1)
        record = record.replacing(None if before is None else before.record)
        account.add_to_totals(record)
        account.used[record.response_id] = _Used(record, settled.counted)
        self._forget_old(account, record.ended_at)

    async def release(self, tenant: str, response_id: str) -> None:
        account = self._accounts[tenant]
        reserved = account.reserved.pop(response_id, None)
        if reserved is not None:
            account.counters.subtract(reserved.amounts)

    async def reservations(self, tenant: str) -> Sequence[Reservation]:
        return tuple(self._accounts[tenant].reserved.values())

    async def reservation(self, tenant: str, response_id: str) -> Reservation | None:
        return self._accounts[tenant].reserved.get(response_id)

    async def answers_reserved(self, tenant: str) -> int:
        return len(self._accounts[tenant].reserved)

    async def committed(self, tenant: str, counters: Iterable[str]) -> Mapping[str, int]:
        account = self._accounts[tenant]
        return {name: account.counters[name] for name in counters}

    async def totals(
        self, tenant: str, first_day: str, last_day: str, user: str | None = None
    ) -> Sequence[DayTotals]:
        found = self._accounts[tenant].totals.get(user or "", {})
        return summed(each for each in found.values() if first_day <= each.day <= last_day)

    async def records(self, tenant: str, day: str) -> Sequence[UsageRecord]:
        used = self._accounts[tenant].used.values()
        return [each.record for each in used if each.record.day == day]

    def _forget_old(self, account: _AccountUsage, now: float) -> None:
        """Forget the oldest records, which are first."""
        while account.used:
            response_id, oldest = next(iter(account.used.items()))
            if oldest.record.ended_at > now - self._kept_seconds:
                break
            account.add_to_totals(oldest.record, times=-1)
            del account.used[response_id]
