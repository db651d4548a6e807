"""Budgets: the maximum cost of an answer is reserved, and its true cost is settled."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from evenflow.stream_core.base.model_prices import NANODOLLARS, ModelPrices
from evenflow.stream_core.tenants.tenant import QuotaLimits, Tenant

_TOKENS = "tokens"
_DOLLARS = "nanodollars"
_USER_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Cost:
    """The true or the maximum cost of an answer."""

    tokens: int
    nanodollars: int

    def of(self, counter: str) -> int:
        """Its amount in the unit of a counter."""
        return self.tokens if counter.startswith(_TOKENS) else self.nanodollars


@dataclass(frozen=True, slots=True)
class Budget:
    """The bound of a tenant, a key or a user in one period.

    Args:
        counter: the name of its counter: unit, period and account.
        bound: in the counter's unit.
        ends_at: when the period ends, in seconds since the epoch.
    """

    counter: str
    bound: int
    ends_at: float

    @property
    def in_dollars(self) -> bool:
        """Whether it is in dollars, so that a model needs a price."""
        return self.counter.startswith(_DOLLARS)


def budgets_of(tenant: Tenant, key_id: str, user: str, now: float) -> tuple[Budget, ...]:
    """The budgets that an answer counts to.

    Args:
        key_id: of its message's key. Empty: none.
        user: the user of the answer. Empty: not known, and no user's budget counts.
        now: seconds since the epoch.
    """
    key = tenant.key(key_id)
    of_key = [] if key is None else [(f"key/{key.account_id}", key.limits)]
    bounds = [("tenant", tenant.limits), *of_key]
    if user:
        bounds.append((f"user/{digest_of_user(user)}", tenant.user_limits))
    return tuple(budget for account, limits in bounds for budget in _budgets(account, limits, now))


def has_budgets(tenant: Tenant) -> bool:
    """Whether the tenant, its users or a key of it have a budget."""
    return any(
        limits.tokens_per_day or limits.dollars_per_month for limits in _limits_of_all(tenant)
    )


def models_without_price(
    tenant: Tenant, served: Mapping[str, str], prices: ModelPrices
) -> list[str]:
    """The models of a tenant with budgets in dollars that have no price.

    Args:
        served: the names on their servers, by public name.
    """
    if not any(limits.dollars_per_month for limits in _limits_of_all(tenant)):
        return []
    names = {served.get(public, public) for public in tenant.models or served}
    return sorted(names - prices.by_model.keys())


def _limits_of_all(tenant: Tenant) -> Iterator[QuotaLimits]:
    yield from (tenant.limits, tenant.user_limits, *(key.limits for key in tenant.keys))


def digest_of_user(user: str) -> str:
    """A user in the names of rows: clients choose names of any length."""
    return hashlib.sha256(user.encode("utf-8", "surrogateescape")).hexdigest()[:_USER_DIGITS]


def day_of(moment: float) -> str:
    """The day of UTC of a time in seconds since the epoch: `2026-11-24`."""
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


def _budgets(account: str, limits: QuotaLimits, now: float) -> Iterable[Budget]:
    if limits.tokens_per_day is None and limits.dollars_per_month is None:
        return
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if limits.tokens_per_day is not None:
        ends = day + timedelta(days=1)
        counter = f"{_TOKENS}/{day.date().isoformat()}/{account}"
        yield Budget(counter, limits.tokens_per_day, ends.timestamp())
    if limits.dollars_per_month is not None:
        ends = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        counter = f"{_DOLLARS}/{day:%Y-%m}/{account}"
        yield Budget(counter, round(limits.dollars_per_month * NANODOLLARS), ends.timestamp())


@dataclass(frozen=True, slots=True)
class Reservation:
    """The reservation of an answer that has not ended.

    Args:
        owner: the node that reserved it.
        created_at: seconds since the epoch.
        amounts: by counter.
        step: the number of times it has grown.
    """

    tenant: str
    response_id: str
    owner: str
    created_at: float
    amounts: Mapping[str, int]
    step: int = 0


@dataclass(frozen=True, slots=True)
class ReservationRequest:
    """A request to reserve, or to reserve more.

    Args:
        wanted: the new reservation.
        bounds: the limits of its counters. A counter without one never rejects.
        before: the present reservation. None: there is none.
    """

    wanted: Reservation
    bounds: Mapping[str, int] = field(default_factory=dict)
    before: Reservation | None = None

    @property
    def added(self) -> dict[str, int]:
        """The amounts that it adds to the counters."""
        before = {} if self.before is None else self.before.amounts
        return {name: most - before.get(name, 0) for name, most in self.wanted.amounts.items()}


def without_room(
    requests: Sequence[ReservationRequest], committed: Mapping[str, int]
) -> list[str | None]:
    """For each request, in their order, the counter without room for it. None: it is granted.

    Granted requests count for later ones. One that is too large does not keep out smaller ones.

    Args:
        committed: the amounts spent and reserved, by counter. A missing counter has 0.
    """
    sums: Counter[str] = Counter(committed)
    full_counters: list[str | None] = []
    for request in requests:
        added = request.added
        full = next(
            (
                name
                for name, bound in request.bounds.items()
                if sums[name] + added.get(name, 0) > bound
            ),
            None,
        )
        full_counters.append(full)
        if full is None:
            sums.update(added)
    return full_counters


def most_before(requests: Sequence[ReservationRequest]) -> dict[str, int]:
    """The most that may be committed before, by counter, if all requests are to be granted."""
    sums: Counter[str] = Counter()
    most: dict[str, int] = {}
    for request in requests:
        sums.update(request.added)
        for name, bound in request.bounds.items():
            left = bound - sums[name]
            most[name] = min(left, most.get(name, left))
    return most


def added_by(requests: Iterable[ReservationRequest]) -> dict[str, int]:
    """The sum of the amounts that requests add, by counter."""
    sums: Counter[str] = Counter()
    for request in requests:
        sums.update(request.added)
    return dict(sums)


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an answer's end changes the counters.

    Args:
        counted: the cost that counts from now on, by counter.
        changes: the amount to add to each counter. Negative where more was reserved.
    """

    counted: Mapping[str, int]
    changes: Mapping[str, int]


def settlement(
    cost: Cost,
    counters: Iterable[str],
    reserved: Mapping[str, int] | None,
    counted_before: Mapping[str, int] | None,
) -> Settlement:
    """Replace what was reserved or counted for an answer by its true cost.

    Args:
        counters: the counters of an answer without reservation.
        reserved: the reservation by counter. None: there is none.
        counted_before: the cost that an earlier owner has counted, whose end was replaced.
    """
    replaced: Counter[str] = Counter()
    for amounts in (reserved, counted_before):
        replaced.update(amounts or {})
    names = replaced if reserved is not None or counted_before is not None else counters
    counted = {name: cost.of(name) for name in names}
    return Settlement(counted, {name: cost - replaced[name] for name, cost in counted.items()})
