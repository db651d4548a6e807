"""What counts the values of a metric: counters, ratios and distributions."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import ClassVar, Self

# Preferred numbers (ISO 3, series R20), at most 14.3 % apart. They include the round numbers that
# are thresholds, so a percentile from the buckets is on the same side of them as the true one.
_R20 = (
    1.0,
    1.12,
    1.25,
    1.4,
    1.6,
    1.8,
    2.0,
    2.24,
    2.5,
    2.8,
    3.15,
    3.55,
    4.0,
    4.5,
    5.0,
    5.6,
    6.3,
    7.1,
    8.0,
    9.0,
)
# The open bucket above the last bound is taken to be as wide as the next one would be.
_LAST_EDGE = 1_000_000.0
# A bucket does not include its lower bound, so no value may be on it.
_LEAST_FRACTION = 1e-6


class Distribution:
    """Counts values in buckets. The first includes all smaller values, the last all larger ones.

    `bounds[i]` is the inclusive upper bound of `counts[i]`; `counts[-1]` has none. The unit is the
    caller's. There are 141 buckets: CloudWatch accepts 150 values of a metric in a request.
    """

    __slots__ = ("_bounds", "counts", "total")

    BOUNDS: ClassVar[tuple[float, ...]] = tuple(
        round(number * scale, 3)
        for scale in (0.1, 1, 10, 100, 1_000, 10_000, 100_000)
        for number in _R20
    )  # 0.1 … 900,000 (at milliseconds: 0.1 ms to a quarter of an hour)

    def __init__(self) -> None:
        self._bounds = self.BOUNDS
        self.counts = [0] * (len(self.BOUNDS) + 1)
        self.total = 0.0

    def record(self, value: float, times: int = 1) -> None:
        """Count a value that occurred `times` times."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """The number of recorded values."""
        return sum(self.counts)

    def count_above(self, bound: float) -> int:
        """The number of values above `bound`, one of `BOUNDS`."""
        return sum(self.counts[self._bounds.index(bound) + 1 :])

    def percentile(self, p: float) -> float:
        """The p-th percentile (0–100), interpolated in its bucket. 0.0 without values."""
        rank = self.count * p / 100
        cumulative = 0
        for count, (low, high) in zip(
            self.counts, pairwise((0.0, *self.BOUNDS, self.BOUNDS[-1])), strict=True
        ):
            if count and cumulative + count >= rank:
                return low + (high - low) * (rank - cumulative) / count
            cumulative += count
        return 0.0

    def copy(self) -> Self:
        """A copy of the counts so far."""
        return self.since(type(self)())

    def since(self, earlier: Distribution) -> Self:
        """The values recorded after `earlier`, an earlier copy of this one."""
        recorded = type(self)()
        recorded.counts = [
            current_count - earlier_count
            for current_count, earlier_count in zip(self.counts, earlier.counts, strict=True)
        ]
        recorded.total = self.total - earlier.total
        return recorded

    def weighted_values(self) -> list[tuple[float, int]]:
        """One value and its count for each bucket that is not empty, rising.

        Each value is at the same fraction of its bucket's width, chosen so that the average is the
        true one. A percentile of them is in the bucket of the true percentile. Values above the
        last bound count as at most 1,000,000.
        """
        edges = pairwise((0.0, *self.BOUNDS, _LAST_EDGE))
        buckets = [
            (low, high, count)
            for (low, high), count in zip(edges, self.counts, strict=True)
            if count
        ]
        if not buckets:
            return []
        least = sum(low * count for low, _, count in buckets)
        width = sum((high - low) * count for low, high, count in buckets)
        fraction = min(max((self.total - least) / width, _LEAST_FRACTION), 1.0)
        return [(min(low + (high - low) * fraction, high), count) for low, high, count in buckets]


class DividedDistribution(Distribution):
    """A distribution of all values, and one for each value of its label."""

    __slots__ = ("by_label",)

    def __init__(self) -> None:
        super().__init__()
        self.by_label: dict[str, Distribution] = {}

    def of(self, label: str) -> Distribution:
        """The distribution of this label."""
        known = self.by_label.get(label)
        if known is not None:
            return known
        if len(self.by_label) >= _MOST_DIVIDED:
            label = _OTHER
        return self.by_label.setdefault(label, Distribution())

    def record_of(self, label: str, value: float, times: int = 1) -> None:
        """Count a value that occurred `times` with this label."""
        self.record(value, times)
        self.of(label).record(value, times)


class Ratio:
    """The percent of `part` in `whole`, in the last full minute. Before that, since the start."""

    __slots__ = ("_last_minute", "_part_then", "_whole_then", "part", "whole")

    def __init__(self) -> None:
        self.part = 0
        self.whole = 0
        self._part_then = 0
        self._whole_then = 0
        self._last_minute: float | None = None

    def count_both(self) -> None:
        """Count one event of the whole that is of the part, too."""
        self.part += 1
        self.whole += 1

    @property
    def percent(self) -> float:
        """0–100. 0 when `whole` counted nothing."""
        return _percent(self.part, self.whole) if self._last_minute is None else self._last_minute

    def end_minute(self) -> None:
        """End a minute and begin the next."""
        part, whole = self.part - self._part_then, self.whole - self._whole_then
        self._part_then, self._whole_then = self.part, self.whole
        self._last_minute = _percent(part, whole)


class Counter:
    """Counts events since the start."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self) -> None:
        """Count one event."""
        self.value += 1


# Label values of a counter, each a series. Beyond this number, values that users choose become
# `other`. All values become `other` where that makes no room, or beyond twice this number.
_MOST_LABELLED = 200
_OTHER = "other"
_MOST_DIVIDED = 20  # each has a series for every bucket
_CHOSEN_BY_USERS = frozenset({"agent", "model", "tenant"})


class LabelledCounter(Counter):
    """A counter of events with labels."""

    __slots__ = ("_names", "by_labels")

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._names = names
        self.by_labels: dict[tuple[str, ...], int] = {}

    def count(self, *labels: str, times: int = 1) -> None:
        """Count an event that occurred `times`."""
        if self._is_one_too_many(labels, _MOST_LABELLED):
            labels = self._with_room(labels)
        self.value += times
        self.by_labels[labels] = self.by_labels.get(labels, 0) + times

    def _with_room(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        open_labels = tuple(
            _OTHER if name in _CHOSEN_BY_USERS else label
            for name, label in zip(self._names, labels, strict=True)
        )
        if open_labels == labels or self._is_one_too_many(open_labels, 2 * _MOST_LABELLED):
            return (_OTHER,) * len(labels)
        return open_labels

    def _is_one_too_many(self, labels: tuple[str, ...], most: int) -> bool:
        return labels not in self.by_labels and len(self.by_labels) >= most


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
