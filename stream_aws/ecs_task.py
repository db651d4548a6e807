"""This process' task in ECS: whether it must leave, and its protection from scale-in."""

from __future__ import annotations

from typing import Any, Self

import aiohttp
from aiobotocore.config import AioConfig

CLIENT_CONFIG = AioConfig(
    connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2}
)
"""The settings for `create_client("ecs", …)`."""

_LEAVING = frozenset({"DEACTIVATING", "STOPPING", "DEPROVISIONING", "STOPPED"})
_METADATA_SECONDS = 5.0


class EcsTask:
    """One task of ECS.

    Args:
        client: an aiobotocore client of `ecs`.
        host: the task's IP address in the VPC. None if it has none of its own.
    """

    def __init__(self, client: Any, cluster: str, arn: str, host: str | None = None) -> None:
        self._client = client
        self._cluster = cluster
        self._arn = arn
        self.host = host

    @classmethod
    async def own(cls, client: Any, metadata_uri: str) -> Self:
        """The task of this process.

        Raises:
            aiohttp.ClientError, OSError, TimeoutError: the metadata can't be read.
            KeyError: the metadata is not a task's.
        """
        timeout = aiohttp.ClientTimeout(total=_METADATA_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as http,
            http.get(f"{metadata_uri}/task") as answer,
        ):
            metadata = await answer.json()
        return cls(client, metadata["Cluster"], metadata["TaskARN"], _host(metadata))

    async def is_leaving(self) -> bool:
        """Whether ECS has decided to end the task.

        ECS deregisters its target then, and sends the signal only when no socket is left or the
        deregistration delay is over. The container's own metadata still says that it runs.

        Raises:
            botocore.exceptions.ClientError: ECS refused.
            botocore.exceptions.BotoCoreError: ECS can't be reached.
        """
        return any(task.get("lastStatus") in _LEAVING for task in await self._described())

    async def is_surplus(self) -> bool:
        """Whether ECS wants to end tasks such as this one, so that protection would delay it.

        That is so if a newer deployment replaces the task's own, or that one has too many tasks.

        Raises:
            botocore.exceptions.ClientError: ECS refused.
            botocore.exceptions.BotoCoreError: ECS can't be reached.
        """
        for task in await self._described():
            kind, _, service = task.get("group", "").partition(":")
            if kind == "service":
                answer = await self._client.describe_services(
                    cluster=self._cluster, services=[service]
                )
                return any(
                    _is_surplus(task["startedBy"], described) for described in answer["services"]
                )
        return False

    async def _described(self) -> list[dict[str, Any]]:
        answer = await self._client.describe_tasks(cluster=self._cluster, tasks=[self._arn])
        described: list[dict[str, Any]] = answer["tasks"]
        return described


def _is_surplus(deployment: str, service: dict[str, Any]) -> bool:
    """Whether `deployment` is not the service's newest one (PRIMARY), or has too many tasks."""
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


# ECS's agent waits 4 s for ECS itself.
_TIMEOUT = aiohttp.ClientTimeout(total=6, connect=1)


class ProtectionUnchanged(Exception):
    """The protection was not changed, or that isn't known. The message has ECS's reason."""


class TaskProtection:
    """The protection of this process' task.

    Args:
        agent_uri: the variable ECS_AGENT_URI, which ECS gives to every container.
    """

    def __init__(self, agent_uri: str) -> None:
        self._url = f"{agent_uri}/task-protection/v1/state"

    async def protect(self, minutes: int) -> None:
        """Protect the task for `minutes`: neither scale-in nor a deployment ends it.

        Raises:
            ProtectionUnchanged: the protection was not changed. The reason is `DEPLOYMENT_BLOCKED`
                when more tasks are protected than the service wants.
        """
        await self._put({"ProtectionEnabled": True, "ExpiresInMinutes": minutes})

    async def release(self) -> None:
        """Let ECS end the task again.

        Raises:
            ProtectionUnchanged: the protection was not changed.
        """
        await self._put({"ProtectionEnabled": False})

    async def _put(self, state: dict[str, Any]) -> None:
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as http,
                http.put(self._url, json=state) as answer,
            ):
                reply = await answer.json()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ProtectionUnchanged(
                f"the ECS agent did not answer: {type(error).__name__} {error}"
            ) from error
        # ECS reports a failure with status 200.
        if not isinstance(reply, dict) or reply.get("protection") is None:
            raise ProtectionUnchanged(
                f"ECS did not change the protection of this task: {_reason(reply)}"
            )


def _reason(reply: Any) -> str:
    match reply:
        case {"failure": {"Reason": reason}}:
            return str(reason)
        case {"error": {"Code": code, "Message": message}}:
            return f"{code}: {message}"
        case _:
            return f"{str(reply)[:200]!r} is not an answer of an ECS agent"
