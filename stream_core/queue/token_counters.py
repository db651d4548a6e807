"""Virtual token counters: the service of each tenant, so that the least served one is next.

The method is that of "Fairness in Serving Large Language Models" (arXiv 2401.00588).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import nsmallest

_INPUT_COST, _OUTPUT_COST = 1.0, 2.0
# More tenants than this are known only while they wait, or have answers that run.
_MOST_KNOWN = 10_000
# Sums of fractions that should be 0 may not be.
_NOTHING = 1e-6


class AnswerMeter:
    """What one answer was charged, so that the next charge is only what was generated since.

    Args:
        input_tokens: as they are estimated.
    """

    __slots__ = ("_expected", "charged", "input_tokens")

    def __init__(self, input_tokens: int) -> None:
        self.input_tokens = input_tokens
        self._expected = 0.0
        self.charged = 0.0
        """The service that was charged so far."""

    def grown(self, output_tokens: int, input_tokens: int | None = None) -> float:
        """The service since the last call. Below zero where the estimate was too high.

        Args:
            output_tokens: all that were generated so far.
            input_tokens: as the model's server has counted them. None: it has not.
        """
        whole = _INPUT_COST * (self.input_tokens if input_tokens is None else input_tokens)
        whole += _OUTPUT_COST * output_tokens
        grown, self.charged = whole - self.charged, whole
        return grown

    def whole(self, output_tokens: float) -> float:
        """The service of the whole answer, if it has this number of tokens."""
        return _INPUT_COST * self.input_tokens + _OUTPUT_COST * output_tokens

    def update_expected(self, output_tokens: float) -> float:
        """By how much more service is still expected than at the last call. It may be less.

        Args:
            output_tokens: that are still to come.
        """
        expected = _OUTPUT_COST * max(0.0, output_tokens)
        more, self._expected = expected - self._expected, expected
        return more


class TokenCounters:
    """The service of tenants, divided by their weights.

    A **service** is weighted tokens: one of the input counts 1, one of the output 2.

    Args:
        weight_of: a tenant's weight. By default all have the same.
        saved_up: the most service by which a tenant that was idle is behind those that wait. By
            default none.
    """

    def __init__(
        self,
        weight_of: Callable[[str], float] = lambda _tenant: 1.0,
        saved_up: Callable[[str], float] = lambda _tenant: 0.0,
    ) -> None:
        self._weight_of = weight_of
        self._saved_up = saved_up
        self._counters: dict[str, float] = {}
        self._expected: dict[str, float] = {}
        self._last: str | None = None
        self.served: dict[str, float] = {}
        """The service of each tenant here, without weights."""

    def of(self, tenant: str) -> float:
        """A tenant's counter, with the expected service of its running answers."""
        counter, expected = self._counter(tenant), self._expected.get(tenant)
        return counter if expected is None else counter + expected / self._weight_of(tenant)

    def least_served(self, tenants: Iterable[str]) -> tuple[str, float] | None:
        """The tenant with the lowest counter, and the service by which it is behind the next one.
        None: there are not several.
        """
        first_two = nsmallest(2, tenants, key=self.of)
        if len(first_two) < 2:
            return None
        least, second = first_two
        return least, (self.of(second) - self.of(least)) * self._weight_of(least)

    def charge(self, tenant: str, service: float) -> None:
        """Count service on this node."""
        self.served[tenant] = self.served.get(tenant, 0.0) + service
        self.charge_on_other_nodes(tenant, service)

    def expected(self, tenant: str) -> float:
        """The expected service of a tenant's running answers."""
        return self._expected.get(tenant, 0.0)

    def add_expected(self, tenant: str, service: float) -> None:
        """Count the expected service of a tenant's running answers.

        Otherwise a tenant with long answers would get every free call until their tokens are
        counted. Below zero: that much was generated, or won't be.
        """
        self._expected[tenant] = self._expected.get(tenant, 0.0) + service
        if abs(self._expected[tenant]) < _NOTHING:
            del self._expected[tenant]

    def charge_on_other_nodes(self, tenant: str, service: float) -> None:
        """Count service on other nodes."""
        self._counters[tenant] = self._counter(tenant) + service / self._weight_of(tenant)

    def record_arrival(self, tenant: str, waiting: Collection[str]) -> None:
        """Record that a tenant without queued items has one. Idleness saves little up.

        Its counter is lifted to the smallest of those that wait, less what it may have saved up.
        Where nobody waits, to that of the tenant that had the last turn, less the same.

        Args:
            waiting: the other tenants that wait.
        """
        least = min(map(self._counter, waiting)) if waiting else self._counter(self._last or tenant)
        saved_up = self._saved_up(tenant) / self._weight_of(tenant)
        self._counters[tenant] = max(self._counter(tenant), least - saved_up)
        if len(self._counters) > _MOST_KNOWN:
            self._forget_all_but({*waiting, *self._expected, tenant})

    def record_turn(self, tenant: str) -> None:
        """Record that a tenant was served."""
        self._last = tenant

    def _counter(self, tenant: str) -> float:
        return self._counters.get(tenant, 0.0)

    def _forget_all_but(self, tenants: Collection[str]) -> None:
        self._counters = {name: self._counters[name] for name in tenants if name in self._counters}
        self.served = {name: self.served[name] for name in tenants if name in self.served}
