"""How soon a model is used in full again after it has refused every call for a while."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import pytest

from evenflow.stream_core.upstream.concurrency_limiter import ConcurrencyLimiter

_OUTAGE = range(60, 90)
_STEP = 0.05
_ANSWERED_AFTER = 0.05
_WAITING = 500


class Model:
    """One that takes `slots` calls at once, and in the outage none. All times are in seconds."""

    def __init__(self, slots: int, answer: float, first_token: float) -> None:
        self._slots, self._answer, self._first_token = slots, answer, first_token
        self._limiter = ConcurrencyLimiter(2.0)
        self._began = dict[str, float]()
        self._events: list[tuple[float, str, str]] = []
        self._calls = 0

    def running(self) -> Iterator[int]:
        """The calls that run at the end of each second, with hundreds of messages waiting."""
        for step in range(1, 10_000):
            now = step * _STEP
            while self._events and self._events[0][0] <= now:
                self._happen(*heapq.heappop(self._events))
            while len(self._began) < _WAITING and self._limiter.may_start("t", now):
                self._start(now)
            if step % round(1 / _STEP) == 0:
                yield len(self._began)

    def _start(self, now: float) -> None:
        self._calls += 1
        call = f"c{self._calls}"
        self._limiter.acquire(call, "t", ("t",), now, 100)
        self._began[call] = now
        if int(now) in _OUTAGE or len(self._began) > self._slots:
            heapq.heappush(self._events, (now + _ANSWERED_AFTER, "rejected", call))
            return
        # Between 0.7 and 1.3 of the usual length, so that they don't end together.
        seconds = self._answer * (0.7 + 0.006 * (self._calls * 7_919 % 100))
        heapq.heappush(self._events, (now + self._first_token, "first token", call))
        heapq.heappush(self._events, (now + seconds, "ended", call))

    def _happen(self, at: float, event: str, call: str) -> None:
        if event == "first token":
            self._limiter.record_first_token(call, at)
            return
        began_at = self._began.pop(call)
        if event == "rejected":
            self._limiter.record_rejection(at, began_at, None)
        self._limiter.release(call, "t", ("t",))


@pytest.mark.parametrize(
    ("slots", "answer", "first_token"), [(45, 20.0, 0.3), (45, 5.0, 0.3), (200, 20.0, 0.5)]
)
def test_after_thirty_seconds_of_rejections_capacity_is_back_within_ten(
    slots: int, answer: float, first_token: float
) -> None:
    running = list(zip(range(1, 102), Model(slots, answer, first_token).running(), strict=False))
    by_second = dict(running)
    assert by_second[59] >= 0.95 * slots
    assert by_second[89] == 0
    assert by_second[100] >= 0.9 * slots
