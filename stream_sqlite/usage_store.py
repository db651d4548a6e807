"""What tenants have reserved and used, in SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from sqlite3 import Connection

import orjson

from evenflow.stream_core.tenants.budget import (
    Reservation,
    ReservationRequest,
    settlement,
    without_room,
)
from evenflow.stream_core.tenants.usage import COUNTS, DayTotals, UsageRecord, totals_of
from evenflow.stream_core.tenants.usage_store import (
    COUNTERS_KEPT_SECONDS,
    KEPT_SECONDS,
    ReservationGone,
)
from evenflow.stream_sqlite.kept_bytes import USAGE_BYTES, Holder, add_kept
from evenflow.stream_sqlite.reads import Reads
from evenflow.stream_sqlite.writes import Writes

_RESERVATION = "tenant, response_id, owner, created_at, amounts, step"
_COUNTS = ", ".join(COUNTS)
# The largest sum. SQLite fails above 64 bits, and nothing could be settled any more.
_MOST = 2**62
_ADD_TO_TOTALS = (
    f"INSERT INTO usage_totals (tenant, user, day, model, {_COUNTS}, expires_at) "
    f"VALUES (?, ?, ?, ?, {', '.join('?' * len(COUNTS))}, ?) ON CONFLICT DO UPDATE SET "
    + "".join(f"{name} = min({_MOST}, {name} + excluded.{name}), " for name in COUNTS)
    + "expires_at = max(expires_at, excluded.expires_at)"
)


class SQLiteUsageStore:
    """What tenants have reserved and used, in SQLite (`UsageStore`).

    Args:
        reports: the connection for reports, so that no answer waits for them.
        kept_seconds: how long usage records are kept.
    """

    def __init__(
        self, writes: Writes, reads: Reads, reports: Reads, kept_seconds: float = KEPT_SECONDS
    ) -> None:
        self._writes = writes
        self._reads = reads
        self._reports = reports
        self._kept_seconds = kept_seconds

    async def reserve(self, ask: ReservationRequest) -> str | None:
        # Its acceptance follows, which is durable, and makes this durable too.
        granted = await self._writes.run(partial(_reserve, ask=ask), urgent=True)
        if isinstance(granted, ReservationGone):
            raise granted
        return granted

    async def settle(self, record: UsageRecord, counters: Iterable[str] = ()) -> None:
        expires_at = record.ended_at + self._kept_seconds
        await self._writes.run(
            partial(_settle, record=record, counters=tuple(counters), expires_at=expires_at)
        )

    async def release(self, tenant: str, response_id: str) -> None:
        await self._writes.run(partial(_release, tenant=tenant, response_id=response_id))

    async def reservations(self, tenant: str) -> Sequence[Reservation]:
        return await self._reads.run(partial(_reservations, tenant=tenant))

    async def reservation(self, tenant: str, response_id: str) -> Reservation | None:
        return await self._reads.run(partial(_reservation, tenant=tenant, response_id=response_id))

    async def answers_reserved(self, tenant: str) -> int:
        return await self._reports.run(partial(_answers_reserved, tenant=tenant))

    async def committed(self, tenant: str, counters: Iterable[str]) -> Mapping[str, int]:
        return await self._reports.run(partial(_committed, tenant=tenant, counters=tuple(counters)))

    async def totals(
        self, tenant: str, first_day: str, last_day: str, user: str | None = None
    ) -> Sequence[DayTotals]:
        days = first_day, last_day
        return await self._reports.run(partial(_totals, tenant=tenant, days=days, user=user or ""))

    async def records(self, tenant: str, day: str) -> Sequence[UsageRecord]:
        return await self._reports.run(partial(_records, tenant=tenant, day=day))


def _reserve(connection: Connection, ask: ReservationRequest) -> str | ReservationGone | None:
    reservation = ask.wanted
    if _reservation(connection, reservation.tenant, reservation.response_id) != ask.before:
        return ReservationGone(f"the reservation of {reservation.response_id} is another one")
    committed = _committed(connection, reservation.tenant, tuple(reservation.amounts))
    (full,) = without_room([ask], committed)
    if full is None:
        _add(connection, reservation.tenant, ask.added, reservation.created_at)
        connection.execute(
            f"INSERT OR REPLACE INTO reservations ({_RESERVATION}) VALUES (?, ?, ?, ?, ?, ?)",
            (
                reservation.tenant,
                reservation.response_id,
                reservation.owner,
                reservation.created_at,
                _text(reservation.amounts),
                reservation.step,
            ),
        )
    return full


def _settle(
    connection: Connection, record: UsageRecord, counters: Sequence[str], expires_at: float
) -> None:
    place = record.tenant, record.response_id
    row = connection.execute(
        "SELECT record, counted FROM usage_records WHERE tenant = ? AND response_id = ?", place
    ).fetchone()
    before = None if row is None else UsageRecord.from_text(row[0])
    if before is not None and before.epoch > record.epoch:
        return
    reserved = _reservation(connection, *place)
    settled = settlement(
        record.cost,
        counters,
        None if reserved is None else reserved.amounts,
        None if row is None else orjson.loads(row[1]),
    )
    _add(connection, record.tenant, settled.changes, record.ended_at)
    if before is not None:
        _add_to_totals(connection, before, expires_at, times=-1)
    record = record.replacing(before)
    _add_to_totals(connection, record, expires_at)
    connection.execute("DELETE FROM reservations WHERE tenant = ? AND response_id = ?", place)
    connection.execute(
        "INSERT OR REPLACE INTO usage_records VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*place, record.day, record.user, record.to_text(), _text(settled.counted), expires_at),
    )
    if row is None:
        add_kept(connection, {Holder(record.tenant, ""): USAGE_BYTES})


def _release(connection: Connection, tenant: str, response_id: str) -> None:
    reserved = _reservation(connection, tenant, response_id)
    if reserved is not None:
        given_back = {name: -amount for name, amount in reserved.amounts.items()}
        _add(connection, tenant, given_back, reserved.created_at)
        connection.execute(
            "DELETE FROM reservations WHERE tenant = ? AND response_id = ?", (tenant, response_id)
        )


def _add(connection: Connection, tenant: str, changes: Mapping[str, int], now: float) -> None:
    connection.executemany(
        "INSERT INTO budget_counters (tenant, counter, committed, expires_at) VALUES (?, ?, ?, ?) "
        f"ON CONFLICT DO UPDATE SET committed = min({_MOST}, committed + excluded.committed), "
        "expires_at = max(expires_at, excluded.expires_at)",
        [
            (tenant, name, min(_MOST, added), now + COUNTERS_KEPT_SECONDS)
            for name, added in changes.items()
        ],
    )


def _committed(connection: Connection, tenant: str, counters: Sequence[str]) -> Mapping[str, int]:
    return dict(
        connection.execute(
            "SELECT counter, committed FROM budget_counters WHERE tenant = ? AND counter IN "
            "(SELECT value FROM json_each(?))",
            (tenant, orjson.dumps(counters).decode()),
        )
    )


def _reservations(connection: Connection, tenant: str) -> list[Reservation]:
    rows = connection.execute(
        f"SELECT {_RESERVATION} FROM reservations WHERE tenant = ?", (tenant,)
    )
    return [_read(*row) for row in rows]


def _reservation(connection: Connection, tenant: str, response_id: str) -> Reservation | None:
    row = connection.execute(
        f"SELECT {_RESERVATION} FROM reservations WHERE tenant = ? AND response_id = ?",
        (tenant, response_id),
    ).fetchone()
    return None if row is None else _read(*row)


def _answers_reserved(connection: Connection, tenant: str) -> int:
    (answers,) = connection.execute(
        "SELECT count(*) FROM reservations WHERE tenant = ?", (tenant,)
    ).fetchone()
    return int(answers)


def _add_to_totals(
    connection: Connection, record: UsageRecord, expires_at: float, times: int = 1
) -> None:
    """Add a record to the totals of its day and model. With `times=-1`, subtract it."""
    totals = totals_of(record)
    counts = [times * min(_MOST, number) for number in totals.counts.values()]
    connection.executemany(
        _ADD_TO_TOTALS,
        [
            (record.tenant, user, totals.day, totals.model, *counts, expires_at)
            for user in {"", record.user}
        ],
    )


def _totals(
    connection: Connection, tenant: str, days: tuple[str, str], user: str
) -> list[DayTotals]:
    rows = connection.execute(
        f"SELECT day, model, {_COUNTS} FROM usage_totals WHERE tenant = ? AND user = ? "
        "AND day BETWEEN ? AND ? AND answers > 0 ORDER BY day, model",
        (tenant, user, *days),
    )
    return [DayTotals(*row) for row in rows]


def _records(connection: Connection, tenant: str, day: str) -> list[UsageRecord]:
    rows = connection.execute(
        "SELECT record FROM usage_records WHERE tenant = ? AND day = ?", (tenant, day)
    )
    return [UsageRecord.from_text(text) for (text,) in rows]


def _text(amounts: Mapping[str, int]) -> str:
    return orjson.dumps(dict(amounts)).decode()


def _read(
    tenant: str, response_id: str, owner: str, created_at: float, amounts: str, step: int
) -> Reservation:
    return Reservation(tenant, response_id, owner, created_at, orjson.loads(amounts), step)
