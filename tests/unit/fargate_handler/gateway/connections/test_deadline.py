from __future__ import annotations

import pytest

from evenflow.fargate_handler.gateway.connections.deadline import Deadline, TimedOut
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
