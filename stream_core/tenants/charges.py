"""The accounts to which messages and connections are charged, and their charges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from evenflow.stream_core.tenants.accounts import Account
from evenflow.stream_core.tenants.rates import NOTHING, Amount
from evenflow.stream_core.tenants.tenant import QuotaLimits

# The length of an answer without a maximum, before the tenant's first answer has ended.
_FIRST_OUTPUT_TOKENS = 256
_MEAN_OVER = 8


class Level(StrEnum):
    """The level of an account: the tenant, a key or a user."""

    TENANT = "tenant"
    KEY = "key"
    USER = "user"


class Caller(NamedTuple):
    """A verified caller, with the accounts of its messages and connections. Empty: unknown.

    Args:
        tenant: all callers have the same one if no tenant has a key.
        key: the id of the tenant's key, or of the key that opened the session.
        shared: whether the token is a share. Its connections are not counted.
        session: of its line in the queue. Empty: requests with a key share one line.
    """

    tenant: str
    key: str = ""
    user: str = ""
    shared: bool = False
    address: str = ""
    session: str = ""


class TokenDemand(NamedTuple):
    """The tokens that a message may need.

    Args:
        input_tokens: estimated by `estimated_tokens`.
        longest: the maximum tokens of an answer. None: the request has none.
        choices: the number of answers.
    """

    input_tokens: int
    longest: int | None = None
    choices: int = 1

    @property
    def output_tokens(self) -> int | None:
        """The maximum tokens of all answers. None: there is none."""
        return None if self.longest is None else self.longest * self.choices

    def bounded(self, most: int | None) -> TokenDemand:
        """The same with answers of at most `most` tokens. None: no limit."""
        if most is None or (self.longest is not None and self.longest <= most):
            return self
        return self._replace(longest=most)

    def estimate(self, of_tenant: Account) -> Amount:
        """The amount that it is expected to use."""
        output = self.output_tokens
        if output is None:
            output = math.ceil(of_tenant.mean_output) or _FIRST_OUTPUT_TOKENS
        return Amount(1, self.input_tokens, output)


class Counted(NamedTuple):
    """An account with its limits."""

    level: Level
    account: Account
    limits: QuotaLimits


class Charge:
    """The charge of a message. Its answer is counted until `release`.

    Args:
        counted: the tenant's account, then those of the key and the user.
        amount: the estimate. None: another node has charged it.
    """

    __slots__ = ("_amount", "_counted")

    def __init__(self, counted: Sequence[Counted], amount: Amount | None, now: float) -> None:
        self._counted = counted
        self._amount = amount
        for each in counted:
            each.account.answers += 1
        if amount is not None:
            self._add(amount, now)

    def settle(self, input_tokens: int, output_tokens: int, now: float) -> None:
        """Correct the charge of an answer that has ended, and stop counting it."""
        if self._amount is not None:
            actual = Amount(self._amount.requests, input_tokens, output_tokens)
            self._add(actual.minus(self._amount), now)
            if output_tokens:
                _remember(self._counted[0].account, output_tokens)
        self.release()

    def cancel(self, now: float) -> None:
        """Give everything back: the message was not accepted."""
        if self._amount is not None:
            self._add(NOTHING.minus(self._amount), now)
        self.release()

    def release(self) -> None:
        """Stop counting the answer, and keep its charge. A later call changes nothing."""
        for each in self._counted:
            each.account.answers -= 1
        self._counted, self._amount = (), None

    def _add(self, amount: Amount, now: float) -> None:
        for _, account, limits in self._counted:
            account.add(limits, amount, now)
            account.charged = account.charged.plus(amount)


NO_CHARGE = Charge((), None, 0.0)
"""The charge of a caller without limits."""


class Connected:
    """A connection that is counted until it is closed."""

    __slots__ = ("_counted",)

    def __init__(self, counted: Sequence[Counted]) -> None:
        self._counted = counted
        for each in counted:
            each.account.connections += 1

    def close(self) -> None:
        """Stop counting it. A second call changes nothing."""
        for each in self._counted:
            each.account.connections -= 1
        self._counted = ()


NOT_COUNTED = Connected(())
"""The connection of a caller without limits."""


def _remember(account: Account, output_tokens: int) -> None:
    """Add an answer's length to the mean."""
    before = account.mean_output or float(_FIRST_OUTPUT_TOKENS)
    account.mean_output = before + (output_tokens - before) / _MEAN_OVER
