"""This task's protection from scale-in, as the ECS agent beside it sets it."""

from __future__ import annotations

from typing import Any

import aiohttp

# The agent itself gives ECS 4 s.
_TIMEOUT = aiohttp.ClientTimeout(total=6, connect=1)


class ProtectionUnchanged(Exception):
    """The protection is as it was, or it isn't known; the message has ECS's reason."""


class TaskProtection:
    """The protection of the task that this process is in.

    Args:
        agent_uri: ECS_AGENT_URI, which ECS gives to every container.
    """

    def __init__(self, agent_uri: str) -> None:
        self._url = f"{agent_uri}/task-protection/v1/state"

    async def protect(self, minutes: int) -> None:
        """From now on and for so long neither scale-in nor a deployment ends this task.

        Raises:
            ProtectionUnchanged: see there; `DEPLOYMENT_BLOCKED` when more tasks are protected than the service wants.
        """
        await self._put({"ProtectionEnabled": True, "ExpiresInMinutes": minutes})

    async def release(self) -> None:
        """From now on ECS may end it.

        Raises:
            ProtectionUnchanged: see there.
        """
        await self._put({"ProtectionEnabled": False})

    async def _put(self, state: dict[str, Any]) -> None:
        try:
            async with aiohttp.ClientSession(timeout=_TIMEOUT) as http, http.put(self._url, json=state) as answer:
                said = await answer.json()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ProtectionUnchanged(f"the ECS agent did not answer: {type(error).__name__} {error}") from error
        # What ECS does not do is a failure with status 200.
        if not isinstance(said, dict) or said.get("protection") is None:
            raise ProtectionUnchanged(f"ECS did not change the protection of this task: {_reason(said)}")


def _reason(said: Any) -> str:
    match said:
        case {"failure": {"Reason": reason}}:
            return str(reason)
        case {"error": {"Code": code, "Message": message}}:
            return f"{code}: {message}"
        case _:
            return f"{str(said)[:200]!r} is no answer of an ECS agent"
