"""Estimates the concurrency limit of an upstream that rejects further calls (429)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

# The reports, and the time, after which other nodes' calls at a rejection are known.
_REPORTS_AWAITED, _AWAITED_SECONDS = 2, 3.0
# The weight of the last rejection in the estimate, once there were four.
_LAST_WEIGHT = 0.25
# The largest decrease while no other node calls: a quota by the minute may be used up.
_DECREASE = 0.9


class RejectionEstimator:
    """An estimate that each rejection corrects, and that grows by one call at a time.

    A rejection observes the limit: the calls that ran beside the rejected ones, here and on other
    nodes. Calls on other nodes are known after two reports. Those are a second or two old, so the
    estimate is a mean in which the last rejection counts a quarter. All nodes publish theirs, and
    each takes the mean of them. A single node learns the limit at once, and lowers a known one
    by a tenth at a time.

    Args:
        known: the limit known before the first rejection. None: none was.
    """

    __slots__ = ("_before", "_here", "_rejected_at", "_reports_awaited", "_seen", "estimate")

    def __init__(self, known: float | None) -> None:
        self.estimate = known or 0.0
        self._seen = 0 if known is None else 1
        # The last rejection: the estimate before, calls of this node beside it, the reports of
        # other nodes still awaited, and its time.
        self._before, self._here, self._reports_awaited = self.estimate, 0, 0
        self._rejected_at = -inf

    @property
    def limit(self) -> int:
        """The most calls at once, one at least."""
        return max(1, round(self.estimate))

    @property
    def is_settled(self) -> bool:
        """Whether the limit is known, and other nodes have reported since the first rejection."""
        return self._seen > 0 and not self.kept

    @property
    def kept(self) -> int:
        """The calls that this node keeps until others have reported since the first rejection."""
        return self._here if self._reports_awaited and self._seen == 1 else 0

    def record_rejection(
        self, here: int, on_other_nodes: int | None, began_at: float, now: float
    ) -> None:
        """Record a rejection.

        Args:
            here: other calls of this node that run.
            on_other_nodes: calls of other nodes, as reported. None: there are no other nodes.
            began_at: when the rejected call started.
            now: in seconds.
        """
        is_new = began_at > self._rejected_at
        waits = self._reports_awaited > 0 and now - self._rejected_at < _AWAITED_SECONDS
        if is_new and waits and on_other_nodes is not None:
            return  # reports on the last rejection are awaited
        if is_new and waits and self._seen == 1:
            # Other nodes may not be known yet, so this shows no more than the first rejection.
            self._here = max(here, int(_DECREASE * self._here))
        elif is_new:
            self._before, self._here, self._rejected_at = self.estimate, here, now
            self._seen += 1
            alone = on_other_nodes is None and self._seen > 1
            self._reports_awaited = 0 if alone else _REPORTS_AWAITED
        elif here < self._here and (self._reports_awaited or on_other_nodes is None):
            self._here = here
        else:
            return
        if on_other_nodes is None:
            self.estimate = max(float(self._here), _DECREASE * self._before)
        else:
            self.estimate = self._with(on_other_nodes)

    def record_reports(self, on_other_nodes: int, limits: Sequence[int]) -> None:
        """Learn from a report of other nodes: the calls that run there, and their estimates."""
        if self._reports_awaited:
            estimate = self._with(on_other_nodes)
            self.estimate = max(estimate, self.estimate) if self._seen == 1 else estimate
            self._reports_awaited -= 1
        if limits and not self.kept:
            self.estimate = (self.estimate + sum(limits)) / (1 + len(limits))

    def grow_to(self, limit: int) -> None:
        """Take a larger limit: calls up to the estimate were accepted."""
        self.estimate += limit - self.limit

    def _with(self, on_other_nodes: int) -> float:
        """The estimate with the last rejection, beside `on_other_nodes` calls of other nodes."""
        weight = max(_LAST_WEIGHT, 1 / self._seen)
        return self._before + weight * (self._here + on_other_nodes - self._before)
