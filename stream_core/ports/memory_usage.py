"""What tenants have reserved and used, in the memory of one process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evenflow.stream_core.ports.usage_store import KEPT_SECONDS, ReservationGone
from evenflow.stream_core.tenants.budget import Ask, Reservation, settlement, without_room
from evenflow.stream_core.tenants.usage import DayTotals, UsageRecord, summed, totals_of


@dataclass(slots=True)
class _Used:
    record: UsageRecord
    counted: Mapping[str, int]


@dataclass(slots=True)
class _Account:
    """All of one tenant."""

    counters: Counter[str] = field(default_factory=Counter)
    reserved: dict[str, Reservation] = field(default_factory=dict)
    used: dict[str, _Used] = field(default_factory=dict)


class MemoryUsageStore:
    """What tenants have reserved and used, in memory (`UsageStore`).

    Args:
        kept_seconds: how long usage records are kept.
    """

    def __init__(self, kept_seconds: float = KEPT_SECONDS) -> None:
        self._accounts: defaultdict[str, _Account] = defaultdict(_Account)
        self._kept_seconds = kept_seconds

    async def reserve(self, ask: Ask) -> str | None:
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
        record = record.in_place_of(None if before is None else before.record)
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

    async def committed(self, tenant: str, counters: Iterable[str]) -> Mapping[str, int]:
        account = self._accounts[tenant]
        return {name: account.counters[name] for name in counters}

    async def totals(self, tenant: str, first_day: str, last_day: str) -> Sequence[DayTotals]:
        used = self._accounts[tenant].used.values()
        return summed(
            totals_of(each.record) for each in used if first_day <= each.record.day <= last_day
        )

    async def records(
        self, tenant: str, day: str, user: str | None = None
    ) -> Sequence[UsageRecord]:
        records = (each.record for each in self._accounts[tenant].used.values())
        return [record for record in records if record.day == day and user in (None, record.user)]

    def _forget_old(self, account: _Account, now: float) -> None:
        """Forget the oldest records, which are first."""
        for response_id, each in tuple(account.used.items()):
            if each.record.ended_at > now - self._kept_seconds:
                break
            del account.used[response_id]
