"""Quotas: how much a minute, and how many at once, a tenant, its keys and its users may."""

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
from evenflow.stream_core.tenants.pressed_users import PressedUsers, name_of_user, tenant_of_user
from evenflow.stream_core.tenants.rates import Amount, rates_in
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import NO_LIMITS, QuotaLimits
from evenflow.stream_core.tenants.tenant_activity import Activity

# Nobody knows when an answer ends, or a connection.
_AGAIN_MS = 1_000


def limit_name(level: Level, bound: str) -> str:
    """A bound as errors, frames and the log name it, such as `tenant.tokens_per_minute`."""
    return f"{level}.{bound}"


def refused_by_rate(counted: Sequence[Counted], amount: Amount, now: float) -> RateLimited | None:
    """The rejection by the bound that has room last. None: all have.

    It says when all have room, if nobody else comes meanwhile.
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
    return _refusal(
        level,
        bound,
        f"this {level} may use {most} {unit} a minute, and less is left than this message may "
        f"need; it was not accepted, send it again in {wait_ms} ms",
        wait_ms,
    )


def refused_by_answers(counted: Sequence[Counted]) -> RateLimited | None:
    """The rejection by who has as many answers as allowed. None: nobody has."""
    for level, account, limits in counted:
        most = limits.answers_at_once
        if most is not None and account.answers + account.other_answers >= most:
            return _refusal(
                level,
                "answers_at_once",
                f"this {level} may have {most} answers at once, and has them; the message was not "
                "accepted, send it again when one has ended",
                _AGAIN_MS,
            )
    return None


def refused_by_connections(counted: Sequence[Counted]) -> RateLimited | None:
    """The rejection by who has as many connections as allowed. None: nobody has."""
    for level, account, limits in counted:
        most = limits.connections
        if most is not None and account.connections + account.other_connections >= most:
            return _refusal(
                level,
                "connections",
                f"this {level} may have {most} connections, and has them; close one, or connect "
                "again later",
                _AGAIN_MS,
            )
    return None


def _refusal(level: Level, bound: str, message: str, retry_after_ms: int) -> RateLimited:
    return RateLimited(
        message,
        code=f"{level}_limit",
        retry_after_ms=retry_after_ms,
        limit=limit_name(level, bound),
    )


_MOST_USERS = 16_384  # 11 to 17 MB
# They have records, so there are few. Keys and tenants whose records have gone are forgotten.
_MOST_TENANTS_AND_KEYS = 16_384
# Behind a tenant's name, which has no such character.
_KEY = "/"
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
        on_shadow: called with a tenant in shadow and the rejection that it would have got.
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
        self._pressed = PressedUsers(self._users, self._limits_of)
        self._accounts = Accounts(_MOST_TENANTS_AND_KEYS)

    # -- messages ----------------------------------------------------------------------------------

    def charge(self, payer: Caller, asked: TokenDemand, now: float) -> Charge:
        """Charge a message that is about to be accepted: to all that count it, or to none.

        Raises:
            RateLimited: a bound has no room for it. `limit` says which.
        """
        counted = self._counted(payer)
        if not counted:
            return NO_CHARGE
        amount = _reserved(counted, asked.estimate(counted[0].account))
        refusal = refused_by_answers(counted) or refused_by_rate(counted, amount, now)
        if refusal is not None:
            self._refuse(payer.tenant, refusal)
            return NO_CHARGE
        charge = Charge(counted, amount, now)
        self._note_user(payer, counted, now)
        return charge

    def take_over(self, payer: Caller) -> Charge:
        """Count an answer that another node began, and charged."""
        counted = self._counted(payer)
        return Charge(counted, None, 0.0) if counted else NO_CHARGE

    def bounds_answers_of(self, tenant: str) -> bool:
        """Whether the tenant has a bound of its own for answers at once."""
        return self._tenants.of(tenant).limits.answers_at_once is not None

    # -- connections -------------------------------------------------------------------------------

    def check_connection(self, payer: Caller) -> None:
        """Check that one more connection may be opened.

        Raises:
            RateLimited: there are as many as allowed. `limit` says whose.
        """
        refusal = refused_by_connections(self._counted(payer))
        if refusal is not None:
            self._refuse(payer.tenant, refusal)

    def connect(self, payer: Caller, now: float) -> Connected:
        """Count a connection, until it is closed."""
        counted = self._counted(payer)
        if not counted:
            return NOT_COUNTED
        connected = Connected(counted)
        self._note_user(payer, counted, now)
        return connected

    # -- what callers are told ---------------------------------------------------------------------

    def states(self, payer: Caller, now: float) -> list[BoundState]:
        """Every bound by the minute that this one has."""
        return [state for state, _ in self._states(payer, now)]

    def hints(self, payer: Caller, now: float) -> list[BoundState]:
        """The bounds that are nearly used. Each is given at most once a minute."""
        return [
            state
            for state, account in self._states(payer, now)
            if state.nearly_used and account.may_hint(state.bound, now, _HINT_SECONDS)
        ]

    def _states(self, payer: Caller, now: float) -> Iterator[tuple[BoundState, Account]]:
        for level, account, limits in self._counted(payer):
            for bound, most in rates_in(limits):
                bucket = account.bucket(bound, now)
                left, resets_in = bucket.remaining(most, now), bucket.empty_in(most, now)
                yield BoundState(level, bound, most, left, resets_in), account

    # -- several tasks -----------------------------------------------------------------------------

    def busy(self, now: float) -> list[str]:
        """Who has used of their bounds lately, as `Activity` names them: all tenants and keys, and
        the users who have used most of theirs.
        """
        busy = [name for name, account in self._accounts if account.is_busy(now)]
        return busy + self._pressed.told(now)

    def activity(self, name: str) -> Mapping[str, int]:
        """What one of these has been charged here, and has here now: the fields of `Activity`."""
        account = self._accounts_with(name).get(name)
        if account is None:
            return {}
        here = {"answers": account.answers, "connections": account.connections}
        return account.charged._asdict() | here

    def learned(self, others: Activity, now: float) -> None:
        """Count what other nodes have charged since the last time, and have now.

        A negative amount was given back. Of who has no bounds nothing is counted.
        """
        accounts, limits = self._accounts_with(others.tenant), self._limits_of(others.tenant)
        if limits == NO_LIMITS:
            if (unbound := accounts.get(others.tenant)) is not None:
                unbound.forget_others()
            return
        account = accounts.of(others.tenant)
        account.add(limits, Amount(others.requests, others.input_tokens, others.output_tokens), now)
        account.other_answers, account.other_connections = others.answers, others.connections

    def _accounts_with(self, name: str) -> Accounts:
        return self._accounts if tenant_of_user(name) is None else self._users

    def _note_user(self, payer: Caller, counted: Sequence[Counted], now: float) -> None:
        level, account, _ = counted[-1]
        if level is Level.USER:
            self._pressed.note(name_of_user(payer.tenant, payer.user), account, now)

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

    def _counted(self, payer: Caller) -> Sequence[Counted]:
        """The accounts that count for this one, the tenant's first. None where nothing is bound."""
        if payer.shared:
            return ()
        tenant = self._tenants.of(payer.tenant)
        key = tenant.key(payer.key)
        of_key = NO_LIMITS if key is None else key.limits
        of_user = tenant.user_limits if payer.user else NO_LIMITS
        if tenant.limits == of_key == of_user == NO_LIMITS:
            return ()
        account = self._accounts.of(payer.tenant)
        counted = [Counted(Level.TENANT, account, tenant.limits)]
        if key is not None and of_key != NO_LIMITS:
            of_account = self._accounts.of(f"{payer.tenant}{_KEY}{key.account_id}")
            counted.append(Counted(Level.KEY, of_account, of_key))
        if of_user != NO_LIMITS:
            user = self._users.of(name_of_user(payer.tenant, payer.user))
            counted.append(Counted(Level.USER, user, of_user))
        return counted

    def _refuse(self, tenant: str, refusal: RateLimited) -> None:
        """Reject, unless the tenant is in shadow: then it is only told."""
        if not self._tenants.of(tenant).shadow:
            raise refusal
        self._on_shadow(tenant, refusal)


def _reserved(counted: Sequence[Counted], estimate: Amount) -> Amount:
    """What is reserved: of the answer no more than the widest bound allows in a minute.

    Else who asks for the longest answer of all would keep all others out until it ends.
    """
    bounds = [
        most
        for _, _, limits in counted
        for most in (limits.tokens_per_minute, limits.output_tokens_per_minute)
        if most is not None
    ]
    most = max(bounds, default=estimate.output_tokens)
    return estimate._replace(output_tokens=min(estimate.output_tokens, most))
