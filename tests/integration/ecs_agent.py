"""ECS as a task meets it: the metadata endpoint of its container, and DescribeTasks, on one real HTTP port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

TASK_ARN = "arn:aws:ecs:us-east-1:111111111111:task/evenflow-test/0123456789abcdef0123456789abcdef"
CLUSTER = "evenflow-test"
_OPERATION = "AmazonEC2ContainerServiceV20141113.DescribeTasks"


class EcsAgent:
    """Says of one task what `last_status` is; `refusing` answers the API's calls with AccessDenied."""

    def __init__(self) -> None:
        self.last_status = "RUNNING"
        self.refusing = False
        self.asked = asyncio.Semaphore(0)
        """Released once for each time that it was asked."""
        self.url = ""

    @property
    def environment(self) -> dict[str, str]:
        """What a container in this task has."""
        return {
            "ECS_CONTAINER_METADATA_URI_V4": f"{self.url}/v4/container",
            "AWS_ENDPOINT_URL_ECS": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
        }

    async def metadata(self, _request: web.Request) -> web.Response:
        """`GET ${ECS_CONTAINER_METADATA_URI_V4}/task`."""
        return web.json_response({"Cluster": CLUSTER, "TaskARN": TASK_ARN, "KnownStatus": "RUNNING"})

    async def api(self, request: web.Request) -> web.Response:
        """The API's JSON protocol."""
        assert request.headers["X-Amz-Target"] == _OPERATION
        assert await request.json() == {"cluster": CLUSTER, "tasks": [TASK_ARN]}
        self.asked.release()
        if self.refusing:
            return _json({"__type": "AccessDeniedException", "message": "not allowed"}, 400)
        return _json({"tasks": [{"taskArn": TASK_ARN, "lastStatus": self.last_status}], "failures": []}, 200)


def _json(body: object, status: int) -> web.Response:
    return web.Response(text=json.dumps(body), status=status, content_type="application/x-amz-json-1.1")


@asynccontextmanager
async def ecs_agent() -> AsyncIterator[EcsAgent]:
    """Serve one on a free port."""
    agent = EcsAgent()
    app = web.Application()
    app.add_routes([web.get("/v4/container/task", agent.metadata), web.post("/", agent.api)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    agent.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield agent
    finally:
        await runner.cleanup()
