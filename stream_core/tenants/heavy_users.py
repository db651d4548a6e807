"""The users with much use of a bound: nodes report these to each other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from heapq import nlargest

from evenflow.stream_core.tenants.accounts import Account, Accounts
from evenflow.stream_core.tenants.tenant import QuotaLimits

REPORTED_SHARE = 0.25
"""Of a bound. A user with less of every bound is counted by each node alone."""
MOST_REPORTED_USERS = 32
"""The most users that are reported at once: those with the most use."""
# The most users whose shares are computed each second, which takes some 3 ms.
_MOST_CANDIDATES = 128
# A tenant's and a key's name have no such text.
_USER = "//"
_DIGITS = 32


def name_of_user(tenant: str, user: str) -> str:
    """The name of a user in reports. It is a digest: what clients send may be long, and private."""
    return f"{tenant}{_USER}{hashlib.sha256(user.encode()).hexdigest()[:_DIGITS]}"


def tenant_of_user(name: str) -> str | None:
    """The tenant of a user. None: it is the name of a tenant or of a key."""
    tenant, separator, _ = name.partition(_USER)
    return tenant if separator else None


class HeavyUsers:
    """Selects the users of a node whose use on other nodes matters.

    Args:
        users: their accounts.
        limits_of: a user's limits, by name.
    """

    def __init__(self, users: Accounts, limits_of: Callable[[str], QuotaLimits]) -> None:
        self._users = users
        self._limits_of = limits_of
        self._names: set[str] = set()

    def record_use(self, name: str, account: Account, now: float) -> None:
        """Record that a user has sent a request, or connected."""
        if len(self._names) >= _MOST_CANDIDATES:
            return
        if self._share(name, account, now) >= REPORTED_SHARE:
            self._names.add(name)

    def to_report(self, now: float) -> list[str]:
        """The users to report now.

        The reports of other nodes about all other users are dropped, since they would get old.
        """
        accounts = {name: self._users.get(name) for name in self._names}
        shares = {
            name: self._share(name, account, now)
            for name, account in accounts.items()
            if account is not None
        }
        self._names = {name for name, share in shares.items() if share >= REPORTED_SHARE}
        reported = nlargest(MOST_REPORTED_USERS, self._names, key=shares.__getitem__)
        for name in accounts.keys() - reported:
            if (account := accounts[name]) is not None:
                account.forget_other_nodes()
        return reported

    def _share(self, name: str, account: Account, now: float) -> float:
        return account.share(self._limits_of(name), now)
