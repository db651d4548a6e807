"""This process' own task, as ECS sees it."""

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
    """

    def __init__(self, client: Any, cluster: str, arn: str) -> None:
        self._client = client
        self._cluster = cluster
        self._arn = arn

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
        return cls(client, metadata["Cluster"], metadata["TaskARN"])

    async def is_leaving(self) -> bool:
        """Whether ECS has decided to end it: its target is deregistered, its signal comes when no socket is left or the
        deregistration delay is over. The metadata in the container go on saying that it runs.

        Raises:
            botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError: ECS refused, or can't be reached.
        """
        answer = await self._client.describe_tasks(cluster=self._cluster, tasks=[self._arn])
        return any(task.get("lastStatus") in _LEAVING for task in answer["tasks"])
