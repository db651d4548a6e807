"""The usage report of a tenant or a user: what was used, and what is left of the budgets."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Literal, cast

from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.base.model_prices import NANODOLLARS, ModelPrices
from evenflow.stream_core.protocols.evenflow.http_bodies import BudgetLeft, UsageReport, UsedOfDay
from evenflow.stream_core.tenants.budget import Budget, budgets_of
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.usage import DayTotals, UsageRecord
from evenflow.stream_core.tenants.usage_store import UsageStore

MOST_DAYS = 366
MOST_DAYS_OF_A_USER = 31
_NO_PRICES = ModelPrices()


async def usage_report(
    store: UsageStore,
    tenant: Tenant,
    days: tuple[date, date],
    now: float,
    *,
    key_id: str = "",
    user: str | None = None,
    prices: ModelPrices = _NO_PRICES,
) -> UsageReport:
    """What was used from the first of two days to the last, and what is left.

    Args:
        now: seconds since the epoch.
        key_id: of the key to report budgets of, with the tenant's. Empty: none.
        user: the report is of this user alone, with this user's budgets. None: of the tenant.
        prices: the models' prices. The cost of a model without one is null.

    Raises:
        StoreUnavailable: the store can't be reached.
    """
    first, last = (day.isoformat() for day in days)
    totals = await store.totals(tenant.id, first, last, user)
    budgets = budgets_of(tenant, key_id, user or "", now)
    if user is not None:
        budgets = tuple(budget for budget in budgets if _owner_of(budget) == "user")
    committed = await store.committed(tenant.id, [budget.counter for budget in budgets])
    return UsageReport(
        tenant=tenant.id,
        user=user,
        days=[_used(each, prices) for each in totals],
        budgets=[_left(budget, committed.get(budget.counter, 0)) for budget in budgets],
        answers_reserved=await store.answers_reserved(tenant.id) if user is None else 0,
    )


def days_asked(first: str | None, last: str | None, now: float, most: int) -> tuple[date, date]:
    """The days from `first` to `last`. Without them, from the first of the month to today.

    Args:
        now: seconds since the epoch.
        most: the most days of a report.

    Raises:
        InvalidRequest: they are no days, or too many, or none.
    """
    today = datetime.fromtimestamp(now, UTC).date()
    until = _day("to", last) or today
    # Without a first day it is that of the month. `most` may be less than a month.
    earliest = date.fromordinal(max(1, until.toordinal() - most + 1))
    since = _day("from", first) or max(until.replace(day=1), earliest)
    if not 0 <= (until - since).days < most:
        raise InvalidRequest(
            f"`from` and `to` must be days in their order, {most} of them at most; ask for fewer",
            code="invalid_field",
            param="from",
        )
    return since, until


async def day_records(store: UsageStore, tenants: Iterable[str], day: str) -> list[UsageRecord]:
    """The usage records of these tenants on a day. `file_of` makes the day's file of them.

    Raises:
        StoreUnavailable: the store can't be reached.
    """
    found = [await store.records(tenant, day) for tenant in dict.fromkeys(tenants)]
    return [record for records in found for record in records]


def _day(name: str, given: str | None) -> date | None:
    try:
        return None if given is None else date.fromisoformat(given)
    except ValueError:
        raise InvalidRequest(
            f"`{name}` must be a day such as 2026-11-24", code="invalid_field", param=name
        ) from None


def _owner_of(budget: Budget) -> Literal["tenant", "key", "user"]:
    return cast('Literal["tenant", "key", "user"]', budget.counter.split("/")[2])


def _used(totals: DayTotals, prices: ModelPrices) -> UsedOfDay:
    counts = totals.counts
    nanodollars = counts.pop("nanodollars")
    is_priced = nanodollars or prices.cost(totals.model, 0, 0) is not None
    cost = nanodollars / NANODOLLARS if is_priced else None
    return UsedOfDay(day=totals.day, model=totals.model, cost_usd=cost, **counts)


def _left(budget: Budget, committed: int) -> BudgetLeft:
    divisor = NANODOLLARS if budget.in_dollars else 1
    return BudgetLeft(
        of=_owner_of(budget),
        unit="usd" if budget.in_dollars else "tokens",
        period=budget.counter.split("/")[1],
        bound=budget.bound / divisor,
        committed=committed / divisor,
        left=max(0, budget.bound - committed) / divisor,
        ends_at=datetime.fromtimestamp(budget.ends_at, UTC).isoformat(),
    )
