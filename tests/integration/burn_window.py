"""The hours that the alarms on promises look at."""

from __future__ import annotations

import time

from evenflow.stream_core.metrics.metric_catalogue import BURN_RATES
from tests.integration import synthesized_alarms
from tests.integration.alarm_evaluation import is_raised, rule_of
from tests.integration.published_minutes import PREFIX, Service

HOURS = 6
"""The longest window."""


def begin_of_hours() -> int:
    """The begin of such a window that has passed, where the emulator's periods begin, too."""
    return (int(time.time()) // (3_600 * HOURS) - 1) * 3_600 * HOURS


async def is_burning(service: Service, promise: str) -> bool:
    """Whether the alarm of this promise is raised at the end of `service`'s window of hours."""
    resources = synthesized_alarms.of_observability()
    name, end = f"{PREFIX}-burn.{promise}", service.begins + 3_600 * HOURS
    windows = {
        alarm["AlarmName"]: alarm
        for alarm in (it["Properties"] for it in resources.values())
        if alarm.get("AlarmName", "").startswith(f"{name}-")
    }
    assert len(windows) == 2 * len(BURN_RATES)
    burning = {
        window
        for window, alarm in windows.items()
        if is_raised(alarm, await service.last_periods(alarm, end))
    }
    return rule_of(resources, name)(burning)
