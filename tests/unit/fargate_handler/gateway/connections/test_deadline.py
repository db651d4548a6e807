from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from evenflow.fargate_handler.gateway.connections.deadline import ClientTimer, Deadline, TimedOut
from tests.unit.hand_turned_clock import HandTurnedClock


def test_it_passes() -> None:
    clock = HandTurnedClock()
    deadline = Deadline(1500, clock.monotonic)
    clock.turn(1.4)
    deadline.check()
    assert deadline.left == pytest.approx(0.1)
    clock.turn(0.2)
    assert deadline.left == 0
    with pytest.raises(TimedOut) as passed:
        deadline.check()
    assert (passed.value.status, passed.value.code) == (504, "timeout")


@pytest.mark.parametrize("timeout_ms", [None, 10**400])
def test_some_are_never_reached(timeout_ms: int | None) -> None:
    clock = HandTurnedClock()
    deadline = Deadline(timeout_ms, clock.monotonic)
    clock.turn(60)
    deadline.check()
    assert deadline.left > 3600


class _LateLoop:
    """An event loop with one timer, which is as late as the test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self._when: float | None = None
        self._call: Callable[[], None]

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> _LateLoop:
        self._when, self._call = self.now + seconds, call
        self._called_at = self._when
        return self

    def when(self) -> float:
        return self._called_at

    def cancel(self) -> None:
        self._when = None

    def run_to(self, moment: float, lateness: float = 0.0) -> None:
        """Let the time pass. Each timer is called so much later than it should be."""
        while self._when is not None and self._when + lateness <= moment:
            self.now, self._when = max(self.now, self._when + lateness), None
            self._call()
        self.now = max(self.now, moment)

    def stall_until(self, moment: float) -> None:
        """Do nothing until a moment, and then what is due."""
        self.now = moment
        self.run_to(moment)


def _client_timer(loop: _LateLoop) -> tuple[ClientTimer, list[float]]:
    calls = list[float]()
    timer = ClientTimer(
        cast("asyncio.AbstractEventLoop", loop), 10.0, lambda: calls.append(loop.now)
    )
    return timer, calls


def test_a_client_has_its_whole_time_on_a_punctual_loop() -> None:
    loop = _LateLoop()
    _, calls = _client_timer(loop)
    loop.run_to(60.0)
    assert calls == [pytest.approx(10.0)]


@pytest.mark.parametrize("begin", [0.1, 2.4, 5.0, 9.9])
def test_a_stall_of_the_loop_is_not_the_clients_time(begin: float) -> None:
    loop = _LateLoop()
    _, calls = _client_timer(loop)
    loop.run_to(begin)
    loop.stall_until(60.0)
    assert calls == [], "what the client sent meanwhile is read first"
    loop.run_to(120.0)
    assert 60.0 < calls[0] <= 70.0


@pytest.mark.parametrize(("lateness", "by"), [(0.04, 11.0), (0.4, 18.0)])
def test_a_late_loop_still_ends_it(lateness: float, by: float) -> None:
    loop = _LateLoop()
    _, calls = _client_timer(loop)
    loop.run_to(60.0, lateness)
    assert 10.0 + lateness <= calls[0] <= by


def test_it_can_be_stopped_and_redirected() -> None:
    loop, others = _LateLoop(), list[str]()
    timer, calls = _client_timer(loop)
    timer.redirect(lambda: others.append("called"))
    loop.run_to(60.0)
    assert (calls, others) == ([], ["called"])
    stopped, calls = _client_timer(loop)
    loop.run_to(65.0)
    stopped.stop()
    loop.run_to(120.0)
    assert calls == []
