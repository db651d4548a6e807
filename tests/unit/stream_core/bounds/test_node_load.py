from __future__ import annotations

from dataclasses import replace

import pytest

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.node_load import LoadFigure, NodeUse

LIMITS = Limits(
    connections_per_node=1_000,
    requests_per_node=500,
    generations_per_node=200,
    queue_depth=100,
    batch_window_ms=50,
)
NOTHING = NodeUse(
    connections=0, event_streams=0, answers=0, queue=0, cpu_share=0.0, lateness_seconds=0.0
)


@pytest.mark.parametrize(
    ("use", "part", "percent"),
    [
        (replace(NOTHING, connections=300), "connections", 30.0),
        (replace(NOTHING, event_streams=300), "event_streams", 60.0),
        (replace(NOTHING, answers=50), "answers", 25.0),
        (replace(NOTHING, queue=90), "queue", 90.0),
        (replace(NOTHING, cpu_share=0.75), "cpu", 75.0),
        (replace(NOTHING, lateness_seconds=0.020), "lateness", 40.0),
        (replace(NOTHING, connections=300, answers=100, cpu_share=0.2), "answers", 50.0),
    ],
)
def test_it_is_the_worst_of_its_parts_each_as_a_share_of_its_limit(
    use: NodeUse, part: str, percent: float
) -> None:
    load = LoadFigure(LIMITS, now=0.0)
    load.sample(use, now=1.0)
    assert load.percent == pytest.approx(percent)
    assert load.worst == part


def test_it_is_the_mean_of_the_last_minute() -> None:
    """A peak of one moment, when somebody looks, starts no task."""
    load = LoadFigure(LIMITS, now=0.0)
    assert load.percent == 0.0
    for second in range(1, 31):
        load.sample(NOTHING, now=second)
    for second in range(31, 61):
        load.sample(replace(NOTHING, cpu_share=0.8), now=second)
    assert load.percent == pytest.approx(40.0)
    for second in range(61, 121):
        load.sample(replace(NOTHING, answers=20), now=second)
    assert load.percent == pytest.approx(10.0)


def test_a_sample_stands_for_the_time_since_the_one_before() -> None:
    """A node without CPU takes a sample in ten seconds: it was full for all of them."""
    load = LoadFigure(LIMITS, now=0.0)
    for second in range(1, 31):
        load.sample(NOTHING, now=second)
    for second in (40, 50, 60):
        load.sample(replace(NOTHING, cpu_share=1.0), now=second)
    assert load.percent == pytest.approx(50.0)


def test_more_than_a_limit_is_all_of_it() -> None:
    """A clock that is five intervals late would otherwise ask for ten times as many tasks."""
    load = LoadFigure(LIMITS, now=0.0)
    load.sample(replace(NOTHING, lateness_seconds=0.25, connections=1_125), now=1.0)
    assert load.percent == 100.0


def test_a_node_that_queues_nothing_has_no_share_of_a_queue() -> None:
    load = LoadFigure(LIMITS.model_copy(update={"queue_depth": 0}), now=0.0)
    load.sample(replace(NOTHING, answers=1), now=1.0)
    assert (load.worst, load.percent) == ("answers", 0.5)
