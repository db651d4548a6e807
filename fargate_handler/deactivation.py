"""Learning that this task is leaving while there is still time to hand over."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_aws.ecs_task import EcsTask

_logger = logging.getLogger(__name__)

# Between two looks, spread so that the tasks of a service don't ask together: half the deregistration delay is left at least.
_LOOK_SECONDS = (5.0, 10.0)


async def deactivated(task: EcsTask) -> None:
    """Return when ECS has begun to end `task`. SIGTERM comes up to two minutes after that, when the sockets are cut."""
    failing = False
    while True:
        await asyncio.sleep(random.uniform(*_LOOK_SECONDS))
        try:
            if await task.is_leaving():
                _logger.info("ECS has deactivated this task")
                return
            failing = False
        except Exception as error:  # whatever it is, SIGTERM is still to come
            if not failing:
                _logger.warning("ECS can't be asked whether this task is leaving: %s", error)
            failing = True
