"""The alarms on AWS's own metrics: what AWS publishes in a minute raises them just beyond their
threshold, and silence is what they say it is.

No emulator of ours publishes these. Each condition below says which values AWS would; CloudWatch's
emulator makes the alarm's statistic of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.integration.alarm_evaluation import selections
from tests.integration.published_minutes import WINDOW_MINUTES, Service, published
from tests.integration.synthesized_alarms import on_metrics_of_aws


def _each(count: float) -> list[float]:
    """One value for each thing that happened; none where nothing did."""
    return [1.0] * int(count)


CONDITIONS: dict[str, Callable[[float], list[float]]] = {
    "dead_letters.waiting": lambda messages: [0.0, messages],
    "firewall.blocked_requests": _each,
    "http_api.errors": _each,
    "load_balancer.handler_errors": _each,
    "load_balancer.own_errors": _each,
    "poll_response.throttles": _each,
    "rollback-errors": _each,
    "rotate_signing_keys.errors": _each,
    # Each node of the load balancer says what it finds healthy.
    "service.healthy_tasks": lambda tasks: [tasks + 1, tasks],
    "session_init.duration_ms": lambda slowest: [10.0] * 200 + [slowest],
    "session_init.throttles": _each,
    "usage_file.errors": _each,
    # Each running task says how busy it is.
    "workers.running_tasks": lambda tasks: [0.5] * int(tasks),
}
"""By the alarm, what AWS publishes in a minute of so many errors, tasks or milliseconds."""

_ALARMS = [
    pytest.param(name, alarm, id=f"{environment}-{name}")
    for environment in ("prod", "staging-workers")  # all alarms, with small limits and large ones
    for name, alarm in on_metrics_of_aws(environment).items()
]
Alarm = dict[str, Any]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with published() as service:
        yield service


def _level(alarm: Alarm, *, beyond: bool) -> float:
    """At the threshold, or the next whole number beyond it."""
    threshold = float(alarm["Threshold"])
    if not beyond:
        return threshold
    return threshold - 1 if alarm["ComparisonOperator"].startswith("LessThan") else threshold + 1


async def _is_raised_by(service: Service, name: str, alarm: Alarm, beyond_minutes: int) -> bool:
    """Whether a window raises the alarm of which the last minutes are beyond the threshold."""
    (selection,) = selections(alarm).values()
    dimensions = [{"Name": key, "Value": value} for key, value in selection.dimensions]
    for minute in range(WINDOW_MINUTES):
        beyond = minute >= WINDOW_MINUTES - beyond_minutes
        if values := CONDITIONS[name](_level(alarm, beyond=beyond)):
            datum = {"MetricName": selection.name, "Dimensions": dimensions, "Values": values}
            await service.client.put_metric_data(
                Namespace=selection.namespace,
                MetricData=[datum | {"Timestamp": service.begins + 60 * minute}],
            )
    return bool(await service.raised({name: alarm}))


@pytest.mark.parametrize(("name", "alarm"), _ALARMS)
async def test_it_is_raised_just_beyond_its_threshold(
    name: str, alarm: Alarm, service: Service
) -> None:
    assert await _is_raised_by(service, name, alarm, alarm["DatapointsToAlarm"])


@pytest.mark.parametrize(("name", "alarm"), _ALARMS)
async def test_it_waits_for_its_datapoints(name: str, alarm: Alarm, service: Service) -> None:
    """Where one is enough, this is a window at the threshold."""
    assert not await _is_raised_by(service, name, alarm, alarm["DatapointsToAlarm"] - 1)


@pytest.mark.parametrize(("name", "alarm"), _ALARMS)
async def test_silence_raises_those_that_miss_tasks(
    name: str, alarm: Alarm, service: Service
) -> None:
    missing_tasks = name in ("service.healthy_tasks", "workers.running_tasks")
    assert bool(await service.raised({name: alarm})) is missing_tasks
