"""Users who have used so much of a bound that tasks tell each other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from heapq import nlargest

from evenflow.stream_core.tenants.accounts import Account, Accounts
from evenflow.stream_core.tenants.tenant import QuotaLimits

TOLD_SHARE = 0.25
"""Of a bound. Who has used less of each is counted by each task alone."""
MOST_TOLD = 32
"""So many users are told at once, those who have used most."""
# So many are looked at each second, which takes some 3 ms at most.
_MOST_LOOKED_AT = 128
# A tenant's and a key's name have no such text.
_USER = "//"
_DIGITS = 32


def name_of_user(tenant: str, user: str) -> str:
    """How tasks name a user: what clients say it is may be long, and is nobody else's business."""
    return f"{tenant}{_USER}{hashlib.sha256(user.encode()).hexdigest()[:_DIGITS]}"


def tenant_of_user(name: str) -> str | None:
    """The tenant of a user. None: it is the name of a tenant or of a key."""
    tenant, separator, _ = name.partition(_USER)
    return tenant if separator else None


class PressedUsers:
    """Picks those of a task's users of whom it matters what other tasks do.

    Args:
        users: their accounts.
        limits_of: a user's limits, by name.
    """

    def __init__(self, users: Accounts, limits_of: Callable[[str], QuotaLimits]) -> None:
        self._users = users
        self._limits_of = limits_of
        self._names: set[str] = set()

    def note(self, name: str, account: Account, now: float) -> None:
        """A user has asked for something, or connected."""
        if len(self._names) < _MOST_LOOKED_AT and self._share(name, account, now) >= TOLD_SHARE:
            self._names.add(name)

    def told(self, now: float) -> list[str]:
        """The users to be told now. What is known of others is forgotten: it would become old."""
        accounts = {name: self._users.get(name) for name in self._names}
        shares = {
            name: self._share(name, account, now)
            for name, account in accounts.items()
            if account is not None
        }
        self._names = {name for name, share in shares.items() if share >= TOLD_SHARE}
        told = nlargest(MOST_TOLD, self._names, key=shares.__getitem__)
        for name in accounts.keys() - told:
            if (account := accounts[name]) is not None:
                account.forget_others()
        return told

    def _share(self, name: str, account: Account, now: float) -> float:
        return account.share(self._limits_of(name), now)
