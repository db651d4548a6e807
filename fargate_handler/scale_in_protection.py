"""Scale-in: protects a busy task, and notices when ECS ends one."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from evenflow.stream_aws.ecs_task import EcsTask


_logger = logging.getLogger(__name__)

# Random seconds between two checks, so that the tasks of a service do not call ECS together. At
# least half of the deregistration delay is left.
_DEACTIVATION_LOOK_SECONDS = (5.0, 10.0)


async def deactivated(task: EcsTask) -> None:
    """Return when ECS has begun to end `task`. SIGTERM comes up to two minutes later."""
    failing = False
    while True:
        await asyncio.sleep(random.uniform(*_DEACTIVATION_LOOK_SECONDS))
        try:
            if await task.is_leaving():
                _logger.info("ECS has deactivated this task")
                return
            failing = False
        except Exception as error:  # whatever it is, SIGTERM still comes
            if not failing:
                _logger.warning("ECS can't be asked whether this task is leaving: %s", error)
            failing = True


# Protection delays deployments, too. So it is short, in case the task hangs, and renewed with time
# left for a second try.
_MINUTES = 2
_RENEW_SECONDS = (45.0, 75.0)
_RETRY_SECONDS = (10.0, 20.0)
_SURPLUS_SECONDS = (30.0, 60.0)
_LOOK_SECONDS = 1.0
# A short idle moment between two answers changes nothing.
_LINGER_SECONDS = 5.0


class Protection(Protocol):
    """The port to a task's protection from scale-in."""

    async def protect(self, minutes: int) -> None:
        """Take or renew the protection for `minutes`."""

    async def release(self) -> None:
        """Give the protection up."""


class ScaleInProtection:
    """Protects the task while it is busy, unless ECS must end tasks such as this one.

    In a service that is never idle every task would be protected forever, and no deployment or
    scale-in would end. So protection only decides which task ends first. When ECS wants to end
    tasks such as this one, it has found no idle one. Then this task releases its protection, and
    hands its answers over.

    Args:
        surplus: asks ECS whether it wants to end tasks such as this one.
        busy: whether answers run here.
    """

    def __init__(
        self,
        protection: Protection,
        surplus: Callable[[], Awaitable[bool]],
        busy: Callable[[], bool],
    ) -> None:
        self._protection = protection
        self._ask_surplus = surplus
        self._busy = busy
        self._busy_until = 0.0
        self._surplus = False
        self._ask_at = 0.0
        self._protected_until = 0.0
        self._renew_at = 0.0
        self._retry_at = 0.0
        self._failing: set[str] = set()

    async def keep(self) -> None:
        """Check each second until cancelled. Then release the protection."""
        time = asyncio.get_running_loop().time
        try:
            while True:
                await self.look(time())
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            if time() < self._protected_until:
                await self._release(time())

    async def look(self, now: float) -> None:
        """Take, renew or release the protection by the task's state. Never raises."""
        if self._busy():
            self._busy_until = now + _LINGER_SECONDS
        is_busy, is_protected = now < self._busy_until, now < self._protected_until
        if is_busy and now >= self._ask_at:
            await self._learn_surplus(now)
        if now < self._retry_at:
            return
        if not is_busy or self._surplus:
            if is_protected:
                await self._release(now)
        elif not is_protected or now >= self._renew_at:
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
        # Even if the answer is lost, the task may be protected.
        self._protected_until = now + 60 * _MINUTES
        self._renew_at = self._retry_at = now + random.uniform(*_RETRY_SECONDS)
        with self._tolerated("this task is not protected from scale-in"):
            await self._protection.protect(_MINUTES)
            self._renew_at, self._retry_at = now + random.uniform(*_RENEW_SECONDS), now

    async def _release(self, now: float) -> None:
        self._retry_at = now + random.uniform(*_RETRY_SECONDS)
        with self._tolerated("this task may stay protected from scale-in for two minutes more"):
            await self._protection.release()
            self._protected_until, self._retry_at = 0.0, now

    @contextmanager
    def _tolerated(self, failure: str) -> Iterator[None]:
        """Log errors instead of raising them, each kind once until it succeeds again."""
        try:
            yield
            self._failing.discard(failure)
        except Exception as error:
            if failure not in self._failing:
                _logger.warning("%s: %s", failure, error)
            self._failing.add(failure)
