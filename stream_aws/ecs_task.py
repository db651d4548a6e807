"""This task in ECS: what it is, whether it is to go, and its protection from scale-in."""

from __future__ import annotations

from typing import Any, Self

import aiohttp
from aiobotocore.config import AioConfig

CLIENT_CONFIG = AioConfig(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2})
"""For `create_client("ecs", …)`."""

_LEAVING = frozenset({"DEACTIVATING", "STOPPING", "DEPROVISIONING", "STOPPED"})
_METADATA_SECONDS = 5.0


class EcsTask:
    """One task.

    Args:
        client: aiobotocore's `ecs` client.
        cluster, arn: which task.
        host: its IP address in the VPC; None where it has none of its own.
    """

    def __init__(self, client: Any, cluster: str, arn: str, host: str | None = None) -> None:
        self._client = client
        self._cluster = cluster
        self._arn = arn
        self.host = host

    @classmethod
    async def own(cls, client: Any, metadata_uri: str) -> Self:
        """The task that this process is in.

        Raises:
            aiohttp.ClientError, OSError, TimeoutError: the metadata can't be read.
            KeyError: they are no task's.
        """
        timeout = aiohttp.ClientTimeout(total=_METADATA_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as http,
            http.get(f"{metadata_uri}/task") as answer,
        ):
            metadata = await answer.json()
        return cls(client, metadata["Cluster"], metadata["TaskARN"], _host(metadata))

    async def is_leaving(self) -> bool:
        """Whether ECS has decided to end it: its target is deregistered, its signal comes when no socket is left or the
        deregistration delay is over. The metadata in the container go on saying that it runs.

        Raises:
            botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: ECS refused, or can't be reached.
        """
        return any(task.get("lastStatus") in _LEAVING for task in await self._described())

    async def is_surplus(self) -> bool:
        """Whether ECS wants to end tasks such as this one: a newer deployment replaces its own, or its own has more tasks
        than it should. Then a task that is protected holds that up.

        Raises:
            botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: ECS refused, or can't be reached.
        """
        for task in await self._described():
            kind, _, service = task.get("group", "").partition(":")
            if kind == "service":
                answer = await self._client.describe_services(cluster=self._cluster, services=[service])
                return any(_is_surplus(task["startedBy"], described) for described in answer["services"])
        return False

    async def _described(self) -> list[dict[str, Any]]:
        answer = await self._client.describe_tasks(cluster=self._cluster, tasks=[self._arn])
        described: list[dict[str, Any]] = answer["tasks"]
        return described


def _is_surplus(deployment: str, service: dict[str, Any]) -> bool:
    """Of a task that `deployment` started. There is one PRIMARY deployment, the newest."""
    return any(
        newest["id"] != deployment or newest["runningCount"] > newest["desiredCount"]
        for newest in service["deployments"]
        if newest["status"] == "PRIMARY"
    )


def _host(metadata: dict[str, Any]) -> str | None:
    addresses = (
        str(address)
        for container in metadata.get("Containers", ())
        for network in container.get("Networks", ())
        for address in network.get("IPv4Addresses", ())
    )
    return next(addresses, None)


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
