from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.exchange_interval import ExchangeInterval


def test_what_begins_is_told_soon_and_then_ever_less_often() -> None:
    interval = ExchangeInterval(1.0)
    assert interval.next(tells=False) == 0.1
    found = [interval.next(tells=True) for _ in range(5)]
    assert found == pytest.approx([0.2, 0.4, 0.8, 1.0, 1.0])
    assert interval.next(tells=False) == 0.1


def test_where_there_is_much_to_tell_it_is_told_less_often() -> None:
    interval = ExchangeInterval(1.0)
    assert [interval.next(True, 4.0) for _ in range(6)] == [4.0] * 6, "from the first time on"
    assert interval.next(True, 0.5) == 1.0
