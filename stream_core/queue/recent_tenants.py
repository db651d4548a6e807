"""The tenants with recent requests, which may send more."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

# A tenant silent for three times its longest pause is not expected back; after 60 s none is.
_PAUSES, _SHORTEST_SECONDS, _LONGEST_SECONDS = 3.0, 13.0, 60.0
# The decay of the longest pause with each request.
_PAUSE_KEPT_SHARE = 0.9
# Other nodes report each second.
_REPORTED_SECONDS = 5.0
# So that reports stay short.
_MOST_REPORTED = 10


class _Requests(NamedTuple):
    """`requests`: to this node. `at`, `pause`: of requests to all nodes, as far as reported."""

    at: float
    pause: float
    until: float
    requests: int = 0

    def again(self, now: float, times: int) -> _Requests:
        """The state after `times` more requests to any node."""
        if self.pause == _LONGEST_SECONDS:  # before the second request there is no pause
            pause = now - self.at
        else:
            pause = max(now - self.at, _PAUSE_KEPT_SHARE**times * self.pause)
        expected = min(_LONGEST_SECONDS, max(_SHORTEST_SECONDS, _PAUSES * pause))
        return _Requests(now, pause, now + expected, self.requests)


class RecentTenants:
    """The tenants that are expected back, on this node or on others.

    A part of the concurrency limit is reserved for them. A tenant with a request each second is
    expected for 13 seconds after the last one, and one with a single request, or two a minute, for
    a minute. Requests to other nodes count, too: each of many nodes has few.
    """

    def __init__(self) -> None:
        # Ordered by last request, most recent last.
        self._here: dict[str, _Requests] = {}
        self._on_other_nodes: dict[str, _Requests] = {}

    def record_request(self, tenant: str, now: float) -> None:
        """Record a request to this node."""
        last = self._here.pop(tenant, None)
        if last is None:
            recent = _Requests(now, _LONGEST_SECONDS, now + _LONGEST_SECONDS)
        else:
            recent = last.again(now, times=1)
        self._here[tenant] = recent._replace(requests=recent.requests + 1)
        self._on_other_nodes.pop(tenant, None)
        _forget(self._here, now)

    def record_requests_on_other_nodes(self, requests: Mapping[str, int], now: float) -> None:
        """Record the tenants that other nodes expect back, and their new requests there."""
        for tenant, times in requests.items():
            if tenant not in self._here:
                self._on_other_nodes.pop(tenant, None)
                self._on_other_nodes[tenant] = _Requests(now, 0.0, now + _REPORTED_SECONDS)
            elif times:
                self._here[tenant] = self._here.pop(tenant).again(now, times)
        _forget(self._on_other_nodes, now)

    def requests_here(self, now: float) -> dict[str, int]:
        """The last ten tenants that are expected back, and their requests to this node."""
        last = islice(_expected(self._here, now), _MOST_REPORTED)
        return {tenant: self._here[tenant].requests for tenant in last}

    def has_several(self, now: float) -> bool:
        """Whether more than one tenant is expected back."""
        last = {
            *islice(_expected(self._here, now), 2),
            *islice(_expected(self._on_other_nodes, now), 2),
        }
        return len(last) > 1

    def expected_idle_tenants(self, waiting: Container[str], now: float) -> list[str]:
        """Tenants without waiting requests that are expected back: the last two of this node, and
        the last two of other nodes.
        """

        def idle(tenants: dict[str, _Requests]) -> Iterator[str]:
            names = (name for name in _expected(tenants, now) if name not in waiting)
            return islice(names, 2)

        return [*idle(self._here), *idle(self._on_other_nodes)]


def _forget(tenants: dict[str, _Requests], now: float) -> None:
    while tenants and now - tenants[oldest := next(iter(tenants))].at > _LONGEST_SECONDS:
        del tenants[oldest]


def _expected(tenants: dict[str, _Requests], now: float) -> Iterator[str]:
    """The tenants that are expected back, by last request, most recent first."""
    return (tenant for tenant, last in reversed(tenants.items()) if now <= last.until)
