from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.node_exchange import exchange_interval


def intervals(count: int, least: float = 0.0) -> list[float]:
    found, last = [], 0.1
    for _ in range(count):
        last = exchange_interval(last, least, publishes=True)
        found.append(last)
    return found


def test_what_begins_is_told_soon_and_then_ever_less_often() -> None:
    assert intervals(5) == pytest.approx([0.2, 0.4, 0.8, 1.0, 1.0])
    assert exchange_interval(1.0, 0.0, publishes=False) == 0.1


def test_where_there_is_much_to_tell_it_is_told_less_often() -> None:
    assert intervals(6, 4.0) == [4.0] * 6, "from the first time on"
    assert exchange_interval(4.0, 0.5, publishes=True) == 1.0
