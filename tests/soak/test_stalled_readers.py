"""Readers that don't read, as many and as long as it takes to measure: two thousand, and one
among two hundred.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict

import pytest

from tests.integration.conftest import OpenSession, ServeProcess, http, opened, serve, serve_process
from tests.integration.test_memory_of_stalled_readers import (
    Ask,
    asking_websocket,
    events,
    growing_answers,
    large_answers,
    websocket,
)
from tests.integration.test_stalled_reader import one_stalls_among

__all__ = ["http", "opened", "serve", "serve_process"]  # fixtures

pytestmark = pytest.mark.timeout(240)

_OTHERS = 199
# Responses, and readers of each.
_MANY = 20, 100
_STALL_SECONDS = 20.0
_LAG_SECONDS = 10.0


def _percentile(values: list[float], p: float) -> float:
    return sorted(values)[max(0, math.ceil(len(values) * p / 100) - 1)]


def _usual_p95(deviations: list[tuple[float, float]]) -> float:
    """The median of the 95th percentiles of the seconds: what a busy machine holds up for a moment
    spoils a few of them, and one reader that holds up the others would spoil each.
    """
    seconds = defaultdict[int, list[float]](list)
    for at, deviation in deviations:
        seconds[int(at)].append(deviation)
    return statistics.median(_percentile(values, 95) for values in seconds.values())


async def test_one_stalls_for_twenty_seconds_among_two_hundred(
    opened: OpenSession, serve_process: ServeProcess
) -> None:
    # The interval is not stretched, which a busy machine would have it be, and which is no
    # lateness.
    server = serve_process(
        write_buffer_bytes=16_384,
        lag_notice_seconds=5,
        lag_close_seconds=60,
        model_deadline_seconds=100,
        batch_window_max_ms=50,
    )
    assert _usual_p95(await one_stalls_among(_OTHERS, _STALL_SECONDS, server, opened)) < 50


@pytest.mark.parametrize("ask", [websocket, events])
async def test_many_readers_of_growing_answers(
    ask: Ask, opened: OpenSession, serve_process: ServeProcess
) -> None:
    await growing_answers(ask, *_MANY, _LAG_SECONDS, opened, serve_process)


@pytest.mark.parametrize("ask", [websocket, asking_websocket, events])
async def test_many_readers_of_large_answers(
    ask: Ask, opened: OpenSession, serve_process: ServeProcess
) -> None:
    await large_answers([ask], *_MANY, _LAG_SECONDS, opened, serve_process)
