"""Scale-in: a busy task is protected, and a task that ECS takes away leaves."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stream_aws.ecs_task import EcsTask


_logger = logging.getLogger(__name__)

# Between two looks, spread so that the tasks of a service don't ask together: half the deregistration delay is left at least.
_DEACTIVATION_LOOK_SECONDS = (5.0, 10.0)


async def deactivated(task: EcsTask) -> None:
    """Return when ECS has begun to end `task`. SIGTERM comes up to two minutes after that, when the sockets are cut."""
    failing = False
    while True:
        await asyncio.sleep(random.uniform(*_DEACTIVATION_LOOK_SECONDS))
        try:
            if await task.is_leaving():
                _logger.info("ECS has deactivated this task")
                return
            failing = False
        except Exception as error:  # whatever it is, SIGTERM is still to come
            if not failing:
                _logger.warning("ECS can't be asked whether this task is leaving: %s", error)
            failing = True


# Protection holds up deployments too. It is short, so that a task that hangs doesn't do so for long, and renewed with time
# left for another try.
_MINUTES = 2
_RENEW_SECONDS = (45.0, 75.0)
_RETRY_SECONDS = (10.0, 20.0)
_SURPLUS_SECONDS = (30.0, 60.0)
_LOOK_SECONDS = 1.0
# An idle moment between two answers is no reason to call ECS twice.
_LINGER_SECONDS = 5.0


class Protection(Protocol):
    """See `stream_aws.ecs_task.TaskProtection`."""

    async def protect(self, minutes: int) -> None:
        """Take or renew it."""

    async def release(self) -> None:
        """Give it up."""


class ScaleInProtection:
    """Protects the task while it is busy, but never against what ECS has to do.

    On a service that is never idle every task would be protected for ever, and neither a deployment nor a scale-in would
    end. So protection only says who goes first: where ECS wants to end tasks such as this one, and so has found none that
    is idle, this one gives it up, and its answers are handed over like any leaving task's.

    Args:
        surplus: asks ECS whether it wants to end tasks such as this one.
        busy: whether answers run here.
    """

    def __init__(
        self, protection: Protection, surplus: Callable[[], Awaitable[bool]], busy: Callable[[], bool]
    ) -> None:
        self._protection = protection
        self._ask_surplus = surplus
        self._busy = busy
        self._busy_until = 0.0
        self._surplus = False
        self._ask_at = 0.0
        self._held_until = 0.0
        self._renew_at = 0.0
        self._retry_at = 0.0
        self._failing: set[str] = set()

    async def keep(self) -> None:
        """Look each second, until cancelled; then the protection is given up."""
        time = asyncio.get_running_loop().time
        try:
            while True:
                await self.look(time())
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            if time() < self._held_until:
                await self._release(time())

    async def look(self, now: float) -> None:
        """Take, renew or give up the protection, as the task is now. It never raises."""
        if self._busy():
            self._busy_until = now + _LINGER_SECONDS
        wanted, held = now < self._busy_until, now < self._held_until
        if wanted and now >= self._ask_at:
            await self._learn_surplus(now)
        if now < self._retry_at:
            return
        if not wanted or self._surplus:
            if held:
                await self._release(now)
        elif not held or now >= self._renew_at:
            await self._protect(now)

    async def _learn_surplus(self, now: float) -> None:
        self._ask_at = now + random.uniform(*_SURPLUS_SECONDS)
        surplus = self._surplus
        with self._tolerated("ECS doesn't say whether it wants to end tasks such as this one"):
            surplus = await self._ask_surplus()
        if surplus and not self._surplus:
            _logger.info("ECS wants to end tasks such as this one: it is not protected from that")
        self._surplus = surplus

    async def _protect(self, now: float) -> None:
        # Also when the answer is lost: it may be so.
        self._held_until = now + 60 * _MINUTES
        self._renew_at = self._retry_at = now + random.uniform(*_RETRY_SECONDS)
        with self._tolerated("this task is not protected from scale-in"):
            await self._protection.protect(_MINUTES)
            self._renew_at, self._retry_at = now + random.uniform(*_RENEW_SECONDS), now

    async def _release(self, now: float) -> None:
        self._retry_at = now + random.uniform(*_RETRY_SECONDS)
        with self._tolerated("this task may stay protected from scale-in for two minutes more"):
            await self._protection.release()
            self._held_until, self._retry_at = 0.0, now

    @contextmanager
    def _tolerated(self, failure: str) -> Iterator[None]:
        """Whatever goes wrong: answers are streaming meanwhile. It is said once, until it goes well again."""
        try:
            yield
            self._failing.discard(failure)
        except Exception as error:
            if failure not in self._failing:
                _logger.warning("%s: %s", failure, error)
            self._failing.add(failure)
