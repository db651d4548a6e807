"""Waiting for a state, for so long at most; and for the end of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from time import monotonic

_LOOK_SECONDS = 0.1
_CANCEL_AGAIN_SECONDS = 1.0


async def until(met: Callable[[], bool], seconds: float) -> bool:
    """Return when it is so, or when the time is over; whether it is so."""
    give_up_at = monotonic() + seconds
    while not met():
        if monotonic() >= give_up_at:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


async def end(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks until each has ended: Python 3.11's `wait_for` may swallow a cancellation."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=_CANCEL_AGAIN_SECONDS)
