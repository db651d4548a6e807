"""Accounts: what each tenant, key and user has used lately, and has now."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator

from evenflow.stream_core.tenants.rates import NOTHING, Amount, Bucket, rates_in
from evenflow.stream_core.tenants.tenant import QuotaLimits

_MINUTE = 60.0


class Account:
    """What one tenant, key or user has used lately, and has now.

    `answers` and `connections` are those of this task, and `other_answers` and `other_connections`
    those of all others. `charged` is what this task has charged, without what went back.
    `mean_output` is of the lately ended answers, in tokens; 0.0 where none has ended.
    """

    __slots__ = (
        "_buckets",
        "_hinted_at",
        "_used_at",
        "answers",
        "charged",
        "connections",
        "mean_output",
        "other_answers",
        "other_connections",
    )

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}
        self._hinted_at: dict[str, float] = {}
        self._used_at = -math.inf
        self.answers = self.connections = 0
        self.other_answers = self.other_connections = 0
        self.charged = NOTHING
        self.mean_output = 0.0

    @property
    def in_use(self) -> bool:
        """Whether it has any answer or connection."""
        return bool(self.answers or self.connections)

    def bucket(self, bound: str, now: float) -> Bucket:
        """What was used of a bound."""
        found = self._buckets.get(bound)
        if found is None:
            found = self._buckets[bound] = Bucket(now)
        return found

    def is_busy(self, now: float) -> bool:
        """Whether it has anything now, or has used anything in the last minute, at any task."""
        has_elsewhere = self.other_answers or self.other_connections
        return self.in_use or bool(has_elsewhere) or now - self._used_at < _MINUTE

    def share(self, limits: QuotaLimits, now: float) -> float:
        """The largest share of a bound that is used now, or was within about a minute."""
        shares = [
            self.bucket(name, now).lately(most, now) / most for name, most in rates_in(limits)
        ]
        if limits.answers_at_once is not None:
            shares.append((self.answers + self.other_answers) / limits.answers_at_once)
        if limits.connections is not None:
            shares.append((self.connections + self.other_connections) / limits.connections)
        return max(shares, default=0.0)

    def forget_others(self) -> None:
        """It is no longer known what other tasks have."""
        self.other_answers = self.other_connections = 0

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
        """Whether a hint about this bound is due: at most one in so many seconds."""
        if now - self._hinted_at.get(bound, -seconds) < seconds:
            return False
        self._hinted_at[bound] = now
        return True


class Accounts:
    """Accounts by name. So many are remembered, and those with an answer or a connection.

    One more, and the one that was not used for longest begins anew.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: OrderedDict[str, Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[tuple[str, Account]]:
        """All of them, by name."""
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
        # Two looks for each new one: where some are in use, it still gets no longer.
        for _ in range(2):
            if len(self._all) <= self._most:
                return
            name, oldest = self._all.popitem(last=False)
            if oldest.in_use:
                self._all[name] = oldest
