"""Quotas: how much a minute, and how many at once, a tenant, its keys and its users may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from stream_core.protocol.errors import RateLimited
from stream_core.tenants.accounts import Account, Accounts
from stream_core.tenants.charges import (
    NO_CHARGE,
    NOT_COUNTED,
    Asked,
    Charge,
    Connected,
    Counted,
    Level,
    Payer,
)
from stream_core.tenants.rates import Amount, rates_in
from stream_core.tenants.refusals import (
    limit_name,
    refused_by_answers,
    refused_by_connections,
    refused_by_rate,
)
from stream_core.tenants.registry import Tenants
from stream_core.tenants.tenant import NO_LIMITS

_MOST_USERS = 16_384  # some 12 MB
# They have records, so there are few. Keys and tenants whose records have gone are forgotten.
_MOST_TENANTS_AND_KEYS = 65_536
_NEARLY = 0.8
_HINT_SECONDS = 60.0


class BoundState(NamedTuple):
    """A bound by the minute, and what is left of it.

    Args:
        level: whose it is.
        bound: its name in `QuotaLimits`.
        resets_in: seconds until nothing of it is used.
    """

    level: Level
    bound: str
    most: int
    remaining: int
    resets_in: float

    @property
    def limit(self) -> str:
        """Whose it is, and which."""
        return limit_name(self.level, self.bound)

    @property
    def nearly_used(self) -> bool:
        """Whether more than 80 % of it is used."""
        return self.remaining < (1 - _NEARLY) * self.most


def _nobody_is_told(_tenant: str, _refusal: RateLimited) -> None:
    """Where no tenant is in shadow."""


class Quotas:
    """What tenants, keys and users have used of their bounds.

    A message is charged when it is accepted, by an estimate, and corrected when its answer has
    ended. Every `now` is in seconds of a clock that never goes back.

    Args:
        tenants: have the bounds.
        on_shadow: called with a tenant in shadow and the refusal that it would have got.
        most_users: how many users are remembered.
    """

    def __init__(
        self,
        tenants: Tenants,
        on_shadow: Callable[[str, RateLimited], None] = _nobody_is_told,
        most_users: int = _MOST_USERS,
    ) -> None:
        self._tenants = tenants
        self._on_shadow = on_shadow
        self._users = Accounts(most_users)
        self._accounts = Accounts(_MOST_TENANTS_AND_KEYS)

    # -- messages ----------------------------------------------------------------------------------

    def charge(self, payer: Payer, asked: Asked, now: float) -> Charge:
        """Charge a message that is about to be accepted: to all that count it, or to none.

        Raises:
            RateLimited: a bound has no room for it. `limit` says which.
        """
        counted = self._counted(payer)
        if not counted:
            return NO_CHARGE
        amount = asked.estimate(counted[0].account)
        refusal = refused_by_answers(counted) or refused_by_rate(counted, amount, now)
        if refusal is not None:
            self._refuse(payer.tenant, refusal)
            return NO_CHARGE
        return Charge(counted, amount, now)

    def take_over(self, payer: Payer) -> Charge:
        """Count an answer that another task began, and charged."""
        counted = self._counted(payer)
        return Charge(counted, None, 0.0) if counted else NO_CHARGE

    def bounds_answers_of(self, tenant: str) -> bool:
        """Whether the tenant has a bound of its own for answers at once."""
        return self._tenants.of(tenant).limits.answers_at_once is not None

    # -- connections -------------------------------------------------------------------------------

    def check_connection(self, payer: Payer) -> None:
        """Check that one more connection may be opened.

        Raises:
            RateLimited: there are as many as allowed. `limit` says whose.
        """
        refusal = refused_by_connections(self._counted(payer))
        if refusal is not None:
            self._refuse(payer.tenant, refusal)

    def connect(self, payer: Payer) -> Connected:
        """Count a connection, until it is closed."""
        counted = self._counted(payer)
        return Connected(counted) if counted else NOT_COUNTED

    # -- what callers are told ---------------------------------------------------------------------

    def states(self, payer: Payer, now: float) -> list[BoundState]:
        """Every bound by the minute that this one has."""
        return [state for state, _ in self._states(payer, now)]

    def hints(self, payer: Payer, now: float) -> list[BoundState]:
        """The bounds that are nearly used. Each is given at most once a minute."""
        return [
            state
            for state, account in self._states(payer, now)
            if state.nearly_used and account.may_hint(state.bound, now, _HINT_SECONDS)
        ]

    def _states(self, payer: Payer, now: float) -> Iterator[tuple[BoundState, Account]]:
        for level, account, limits in self._counted(payer):
            for bound, most in rates_in(limits):
                bucket = account.bucket(bound, now)
                left, resets_in = bucket.remaining(most, now), bucket.empty_in(most, now)
                yield BoundState(level, bound, most, left, resets_in), account

    # -- several tasks -----------------------------------------------------------------------------

    def of_tenant(self, tenant: str) -> Account | None:
        """What a tenant has used. None where nothing of it is bound."""
        if self._tenants.of(tenant).limits == NO_LIMITS:
            return None
        return self._accounts.of((Level.TENANT, tenant))

    def charge_others(self, tenant: str, amount: Amount, now: float) -> None:
        """Count what other tasks have charged a tenant since the last call. Negative: gave back."""
        account = self.of_tenant(tenant)
        if account is not None:
            account.add(self._tenants.of(tenant).limits, amount, now)

    def others(self, tenant: str, *, answers: int, connections: int) -> None:
        """Note how many answers and connections of a tenant other tasks have now."""
        account = self.of_tenant(tenant)
        if account is not None:
            account.other_answers, account.other_connections = answers, connections

    def _counted(self, payer: Payer) -> Sequence[Counted]:
        """The accounts that count for this one, the tenant's first. None where nothing is bound."""
        tenant = self._tenants.of(payer.tenant)
        key = next((key for key in tenant.keys if key.id == payer.key), None)
        of_key = NO_LIMITS if key is None else key.limits
        of_user = tenant.user_limits if payer.user else NO_LIMITS
        if tenant.limits == of_key == of_user == NO_LIMITS:
            return ()
        account = self._accounts.of((Level.TENANT, payer.tenant))
        counted = [Counted(Level.TENANT, account, tenant.limits)]
        if of_key != NO_LIMITS:
            name = (Level.KEY, payer.tenant, payer.key)
            counted.append(Counted(Level.KEY, self._accounts.of(name), of_key))
        if of_user != NO_LIMITS:
            user = self._users.of((payer.tenant, payer.user))
            counted.append(Counted(Level.USER, user, of_user))
        return counted

    def _refuse(self, tenant: str, refusal: RateLimited) -> None:
        """Refuse, unless the tenant is in shadow: then it is only told."""
        if not self._tenants.of(tenant).shadow:
            raise refusal
        self._on_shadow(tenant, refusal)
