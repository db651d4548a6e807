"""Virtual token counters: the service of each tenant, for a fair order.

The method is that of "Fairness in Serving Large Language Models" (arXiv 2401.00588).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import nsmallest

_INPUT_COST, _OUTPUT_COST = 1.0, 2.0
# More tenants than this are kept only while they wait, or have answers that run.
_MOST_KNOWN = 10_000
# Sums of fractions that should be 0 may not be.
_NOTHING = 1e-6


class AnswerMeter:
    """Meters the service of one answer: each charge is only for what was generated since the last.

    Args:
        input_tokens: the estimate.
    """

    __slots__ = ("_expected", "charged", "input_tokens")

    def __init__(self, input_tokens: int) -> None:
        self.input_tokens = input_tokens
        self._expected = 0.0
        self.charged = 0.0
        """The service charged so far."""

    def update_charged(self, output_tokens: int, input_tokens: int | None = None) -> float:
        """Update the charged service. Returns its growth, below zero if the estimate was too high.

        Args:
            output_tokens: all tokens generated so far.
            input_tokens: as counted by the upstream. None: not counted.
        """
        whole = _INPUT_COST * (self.input_tokens if input_tokens is None else input_tokens)
        whole += _OUTPUT_COST * output_tokens
        grown, self.charged = whole - self.charged, whole
        return grown

    def service_of(self, output_tokens: float) -> float:
        """The service of the whole answer if it has `output_tokens`."""
        return _INPUT_COST * self.input_tokens + _OUTPUT_COST * output_tokens

    def update_expected(self, output_tokens: float) -> float:
        """Update the service that is still expected. Returns its growth, which may be below zero.

        Args:
            output_tokens: the expected remaining tokens.
        """
        expected = _OUTPUT_COST * max(0.0, output_tokens)
        more, self._expected = expected - self._expected, expected
        return more


class TokenCounters:
    """The service of tenants, divided by their weights.

    A **service** is weighted tokens: one of the input counts 1, one of the output 2.

    Args:
        weight_of: a tenant's weight. By default all have the same.
        saved_up: the most service by which a tenant that was idle starts behind the waiting ones.
            By default none.
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
        self._add(tenant, service)

    def expected(self, tenant: str) -> float:
        """The expected service of a tenant's running answers."""
        return self._expected.get(tenant, 0.0)

    def add_expected(self, tenant: str, service: float) -> None:
        """Add to the expected service of a tenant's running answers.

        Otherwise a tenant with long answers would get every free call until their tokens are
        counted. Below zero: it was generated, or is no longer expected.
        """
        self._expected[tenant] = self._expected.get(tenant, 0.0) + service
        if abs(self._expected[tenant]) < _NOTHING:
            del self._expected[tenant]

    def charge_on_other_nodes(self, tenant: str, service: float) -> None:
        """Count service on other nodes."""
        self._add(tenant, service)

    def record_arrival(self, tenant: str, waiting: Collection[str]) -> None:
        """Record the first queued item of a tenant. Little service is saved up while it was idle.

        Its counter is raised to the lowest one of the waiting tenants, less what may be saved up.
        If none waits, it is raised to that of the tenant with the last turn, less the same.

        Args:
            waiting: the other tenants with queued items.
        """
        least = min(map(self._counter, waiting)) if waiting else self._counter(self._last or tenant)
        saved_up = self._saved_up(tenant) / self._weight_of(tenant)
        self._counters[tenant] = max(self._counter(tenant), least - saved_up)
        if len(self._counters) > _MOST_KNOWN:
            self._forget_all_but({*waiting, *self._expected, tenant})

    def record_turn(self, tenant: str) -> None:
        """Record that a tenant was served."""
        self._last = tenant

    def _add(self, tenant: str, service: float) -> None:
        self._counters[tenant] = self._counter(tenant) + service / self._weight_of(tenant)

    def _counter(self, tenant: str) -> float:
        return self._counters.get(tenant, 0.0)

    def _forget_all_but(self, tenants: Collection[str]) -> None:
        self._counters = {name: self._counters[name] for name in tenants if name in self._counters}
        self.served = {name: self.served[name] for name in tenants if name in self.served}
