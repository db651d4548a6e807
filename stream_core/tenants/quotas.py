"""Quotas of tenants, keys and users: rates a minute, and answers and connections at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.tenants.accounts import Account, Accounts
from evenflow.stream_core.tenants.charges import (
    NO_CHARGE,
    NOT_COUNTED,
    Caller,
    Charge,
    Connected,
    Counted,
    Level,
    TokenDemand,
)
from evenflow.stream_core.tenants.heavy_users import HeavyUsers, name_of_user, tenant_of_user
from evenflow.stream_core.tenants.rates import Amount, rates_in
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import NO_LIMITS, QuotaLimits
from evenflow.stream_core.tenants.tenant_activity import Activity

# The end of an answer or a connection can't be foreseen.
_RETRY_AFTER_MS = 1_000


def limit_name(level: Level, bound: str) -> str:
    """A bound as errors, frames and the log name it, such as `tenant.tokens_per_minute`."""
    return f"{level}.{bound}"


def rate_rejection(counted: Sequence[Counted], amount: Amount, now: float) -> RateLimited | None:
    """The rejection by the rate that has room last. None: all have room.

    Its `Retry-After` is when all rates have room, if no other message is charged meanwhile.
    """
    waits = [
        (seconds, level, bound, limits)
        for level, account, limits in counted
        for bound, seconds in account.waits(limits, amount, now)
    ]
    if not waits:
        return None
    seconds, level, bound, limits = max(waits, key=lambda each: each[0])
    most, unit = getattr(limits, bound), bound.removesuffix("_per_minute").replace("_", " ")
    wait_ms = math.ceil(seconds * 1000)
    return _rejection(
        level,
        bound,
        f"this {level} may use {most} {unit} a minute, and less is left than this message may "
        f"need; it was not accepted, send it again in {wait_ms} ms",
        wait_ms,
    )


def concurrency_rejection(counted: Sequence[Counted]) -> RateLimited | None:
    """The rejection if an account is at its limit of answers at once, else None."""
    for level, account, limits in counted:
        most = limits.answers_at_once
        if most is not None and account.answers + account.answers_on_other_nodes >= most:
            return _rejection(
                level,
                "answers_at_once",
                f"this {level} may have {most} answers at once, and has them; the message was not "
                "accepted, send it again when one has ended",
                _RETRY_AFTER_MS,
            )
    return None


def connection_rejection(counted: Sequence[Counted]) -> RateLimited | None:
    """The rejection if an account is at its limit of connections, else None."""
    for level, account, limits in counted:
        most = limits.connections
        if most is not None and account.connections + account.connections_on_other_nodes >= most:
            return _rejection(
                level,
                "connections",
                f"this {level} may have {most} connections, and has them; close one, or connect "
                "again later",
                _RETRY_AFTER_MS,
            )
    return None


def _rejection(level: Level, bound: str, message: str, retry_after_ms: int) -> RateLimited:
    return RateLimited(
        message,
        code=f"{level}_limit",
        retry_after_ms=retry_after_ms,
        limit=limit_name(level, bound),
    )


_MOST_USERS = 16_384  # 11 to 17 MB
# Tenants and keys with records are few. The accounts of removed ones are dropped.
_MOST_TENANTS_AND_KEYS = 16_384
# Separates a tenant's name, which has no such character, from a key's.
_KEY = "/"
_NEARLY = 0.8
_HINT_SECONDS = 60.0


class BoundState(NamedTuple):
    """A rate limit, and what is left of it.

    Args:
        level: of the account that has it.
        bound: its name in `QuotaLimits`.
        resets_in: seconds until all of it is left.
    """

    level: Level
    bound: str
    most: int
    remaining: int
    resets_in: float

    @property
    def limit(self) -> str:
        """Its level and name."""
        return limit_name(self.level, self.bound)

    @property
    def nearly_used(self) -> bool:
        """Whether more than 80 % of it is used."""
        return self.remaining < (1 - _NEARLY) * self.most


def _ignore(_tenant: str, _rejection: RateLimited) -> None:
    """No tenant is in shadow."""


class Quotas:
    """Counts what tenants, keys and users have used of their limits.

    A message is charged by an estimate when it is accepted. The charge is corrected when its answer
    has ended. Every `now` is in seconds of a clock that never goes back.

    Args:
        tenants: the records with the limits.
        on_shadow: called with a tenant in shadow and the rejection that was not raised.
        most_users: the number of remembered users.
    """

    def __init__(
        self,
        tenants: Tenants,
        on_shadow: Callable[[str, RateLimited], None] = _ignore,
        most_users: int = _MOST_USERS,
    ) -> None:
        self._tenants = tenants
        self._on_shadow = on_shadow
        self._users = Accounts(most_users)
        self._heavy_users = HeavyUsers(self._users, self._limits_of)
        self._accounts = Accounts(_MOST_TENANTS_AND_KEYS)

    # -- messages ----------------------------------------------------------------------------------

    def charge(self, caller: Caller, demand: TokenDemand, now: float) -> Charge:
        """Charge a message that is about to be accepted to all of its accounts, or to none.

        Raises:
            RateLimited: a bound has no room for it. `limit` says which.
        """
        counted = self._counted(caller)
        if not counted:
            return NO_CHARGE
        amount = _reserved(counted, demand.estimate(counted[0].account))
        rejection = concurrency_rejection(counted) or rate_rejection(counted, amount, now)
        if rejection is not None:
            self._reject(caller.tenant, rejection)
            return NO_CHARGE
        charge = Charge(counted, amount, now)
        self._record_user(caller, counted, now)
        return charge

    def take_over(self, caller: Caller) -> Charge:
        """Count an answer that another node began, and charged."""
        counted = self._counted(caller)
        return Charge(counted, None, 0.0) if counted else NO_CHARGE

    def bounds_answers_of(self, tenant: str) -> bool:
        """Whether the tenant's record limits its answers at once."""
        return self._tenants.of(tenant).limits.answers_at_once is not None

    # -- connections -------------------------------------------------------------------------------

    def check_connection(self, caller: Caller) -> None:
        """Check that one more connection may be opened.

        Raises:
            RateLimited: there are as many as allowed. `limit` names the bound.
        """
        rejection = connection_rejection(self._counted(caller))
        if rejection is not None:
            self._reject(caller.tenant, rejection)

    def connect(self, caller: Caller, now: float) -> Connected:
        """Count a connection, until it is closed."""
        counted = self._counted(caller)
        if not counted:
            return NOT_COUNTED
        connected = Connected(counted)
        self._record_user(caller, counted, now)
        return connected

    # -- reports to callers ------------------------------------------------------------------------

    def states(self, caller: Caller, now: float) -> list[BoundState]:
        """The rate limits of a caller."""
        return [state for state, _ in self._states(caller, now)]

    def hints(self, caller: Caller, now: float) -> list[BoundState]:
        """The rate limits that are nearly used up. Each is reported at most once a minute."""
        return [
            state
            for state, account in self._states(caller, now)
            if state.nearly_used and account.may_hint(state.bound, now, _HINT_SECONDS)
        ]

    def _states(self, caller: Caller, now: float) -> Iterator[tuple[BoundState, Account]]:
        for level, account, limits in self._counted(caller):
            for bound, most in rates_in(limits):
                bucket = account.bucket(bound, now)
                left, resets_in = bucket.remaining(most, now), bucket.empty_in(most, now)
                yield BoundState(level, bound, most, left, resets_in), account

    # -- several nodes -----------------------------------------------------------------------------

    def busy_accounts(self, now: float) -> list[str]:
        """The accounts with recent use, as `Activity` names them: all tenants and keys, and the
        users that have used most of their limits.
        """
        busy = [name for name, account in self._accounts if account.is_busy(now)]
        return busy + self._heavy_users.to_report(now)

    def activity(self, name: str) -> Mapping[str, int]:
        """The charges of an account here, and its answers and connections: fields of `Activity`."""
        account = self._accounts_with(name).get(name)
        if account is None:
            return {}
        here = {"answers": account.answers, "connections": account.connections}
        return account.charged._asdict() | here

    def learn(self, activity: Activity, now: float) -> None:
        """Learn from reports: the charges of other nodes since the last one, and their current use.

        A negative amount was given back. Accounts without limits are not counted.
        """
        accounts, limits = self._accounts_with(activity.tenant), self._limits_of(activity.tenant)
        if limits == NO_LIMITS:
            if (unbound := accounts.get(activity.tenant)) is not None:
                unbound.forget_other_nodes()
            return
        account = accounts.of(activity.tenant)
        amount = Amount(activity.requests, activity.input_tokens, activity.output_tokens)
        account.add(limits, amount, now)
        account.answers_on_other_nodes = activity.answers
        account.connections_on_other_nodes = activity.connections

    def _accounts_with(self, name: str) -> Accounts:
        return self._accounts if tenant_of_user(name) is None else self._users

    def _record_user(self, caller: Caller, counted: Sequence[Counted], now: float) -> None:
        level, account, _ = counted[-1]
        if level is Level.USER:
            self._heavy_users.record_use(name_of_user(caller.tenant, caller.user), account, now)

    def _limits_of(self, name: str) -> QuotaLimits:
        """The limits of a tenant, a key or a user."""
        if (of_user := tenant_of_user(name)) is not None:
            return self._tenants.of(of_user).user_limits
        tenant_id, _, account_id = name.partition(_KEY)
        tenant = self._tenants.of(tenant_id)
        if not account_id:
            return tenant.limits
        keys = (key for key in tenant.keys if key.account_id == account_id)
        return next((key.limits for key in keys), NO_LIMITS)

    def _counted(self, caller: Caller) -> Sequence[Counted]:
        """The accounts of a caller, the tenant's first. Empty: none has a limit."""
        if caller.shared:
            return ()
        tenant = self._tenants.of(caller.tenant)
        if tenant.limits is tenant.user_limits is NO_LIMITS and not tenant.keys:
            return ()  # most have no record
        key = tenant.key(caller.key)
        of_key = NO_LIMITS if key is None else key.limits
        of_user = tenant.user_limits if caller.user else NO_LIMITS
        if tenant.limits == of_key == of_user == NO_LIMITS:
            return ()
        account = self._accounts.of(caller.tenant)
        counted = [Counted(Level.TENANT, account, tenant.limits)]
        if key is not None and of_key != NO_LIMITS:
            of_account = self._accounts.of(f"{caller.tenant}{_KEY}{key.account_id}")
            counted.append(Counted(Level.KEY, of_account, of_key))
        if of_user != NO_LIMITS:
            user = self._users.of(name_of_user(caller.tenant, caller.user))
            counted.append(Counted(Level.USER, user, of_user))
        return counted

    def _reject(self, tenant: str, rejection: RateLimited) -> None:
        """Raise a rejection, unless the tenant is in shadow: then only report it."""
        if not self._tenants.of(tenant).shadow:
            raise rejection
        self._on_shadow(tenant, rejection)


def _reserved(counted: Sequence[Counted], estimate: Amount) -> Amount:
    """The amount to reserve: for output at most what the widest rate allows in a minute.

    Otherwise one request for a very long answer would block all others until it ends.
    """
    bounds = [
        most
        for _, _, limits in counted
        for most in (limits.tokens_per_minute, limits.output_tokens_per_minute)
        if most is not None
    ]
    most = max(bounds, default=estimate.output_tokens)
    return estimate._replace(output_tokens=min(estimate.output_tokens, most))
