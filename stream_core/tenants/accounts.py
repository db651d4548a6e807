"""Accounts: the recent and the current use of each tenant, key and user."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator

from evenflow.stream_core.tenants.rates import NOTHING, Amount, Bucket, rates_in
from evenflow.stream_core.tenants.tenant import QuotaLimits

_MINUTE = 60.0


class Account:
    """The recent and the current use of one tenant, key or user.

    `answers` and `connections` are those of this node. `charged` is what this node has charged,
    without what was given back. `mean_output` is the mean length of recent answers, in tokens; 0.0
    before the first one has ended.
    """

    __slots__ = (
        "_buckets",
        "_hinted_at",
        "_used_at",
        "answers",
        "answers_on_other_nodes",
        "charged",
        "connections",
        "connections_on_other_nodes",
        "mean_output",
    )

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._hinted_at: dict[str, float] = {}
        self._used_at = -math.inf
        self.answers = self.connections = 0
        self.answers_on_other_nodes = self.connections_on_other_nodes = 0
        self.charged = NOTHING
        self.mean_output = 0.0

    @property
    def is_in_use(self) -> bool:
        """Whether it has any answer or connection here."""
        return bool(self.answers or self.connections)

    def bucket(self, bound: str, now: float) -> Bucket:
        """The recent use of a bound."""
        found = self._buckets.get(bound)
        if found is None:
            found = self._buckets[bound] = Bucket(now)
        return found

    def is_busy(self, now: float) -> bool:
        """Whether it is in use, or was in the last minute, on any node."""
        on_other_nodes = self.answers_on_other_nodes or self.connections_on_other_nodes
        return self.is_in_use or bool(on_other_nodes) or now - self._used_at < _MINUTE

    def share(self, limits: QuotaLimits, now: float) -> float:
        """The largest share of a bound that is used now, or was within about a minute."""
        shares = [
            self.bucket(name, now).lately(most, now) / most for name, most in rates_in(limits)
        ]
        if limits.answers_at_once is not None:
            shares.append((self.answers + self.answers_on_other_nodes) / limits.answers_at_once)
        if limits.connections is not None:
            shares.append((self.connections + self.connections_on_other_nodes) / limits.connections)
        return max(shares, default=0.0)

    def forget_other_nodes(self) -> None:
        """Drop what other nodes have reported: it is no longer current."""
        self.answers_on_other_nodes = self.connections_on_other_nodes = 0

    def waits(self, limits: QuotaLimits, amount: Amount, now: float) -> Iterator[tuple[str, float]]:
        """Each bound that has no room for `amount`, and the seconds until it has."""
        for bound, most in rates_in(limits):
            seconds = self.bucket(bound, now).wait(amount.of(bound), most, now)
            if seconds:
                yield bound, seconds

    def add(self, limits: QuotaLimits, amount: Amount, now: float) -> None:
        """Count an amount. A negative one is given back."""
        if amount != NOTHING:
            self._used_at = now
        for bound, most in rates_in(limits):
            self.bucket(bound, now).add(amount.of(bound), most, now)

    def may_hint(self, bound: str, now: float, seconds: float) -> bool:
        """Whether a hint about this bound is due: at most one in `seconds`."""
        if now - self._hinted_at.get(bound, -seconds) < seconds:
            return False
        self._hinted_at[bound] = now
        return True


class Accounts:
    """Accounts by name. The least recently used are dropped.

    Args:
        most: the number of remembered accounts. Accounts in use are kept beyond it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: OrderedDict[str, Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[tuple[str, Account]]:
        """All accounts, by name."""
        return iter(self._all.items())

    def get(self, name: str) -> Account | None:
        """The account of this name. None if there is none."""
        return self._all.get(name)

    def of(self, name: str) -> Account:
        """The account of this name, which may be new."""
        account = self._all.get(name)
        if account is None:
            account = self._all[name] = Account()
            self._forget_oldest()
        else:
            self._all.move_to_end(name)
        return account

    def _forget_oldest(self) -> None:
        # Two tries for each new account: even if some are in use, the map does not grow for ever.
        for _ in range(2):
            if len(self._all) <= self._most:
                return
            name, oldest = self._all.popitem(last=False)
            if oldest.is_in_use:
                self._all[name] = oldest
