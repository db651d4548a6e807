"""ECS as a task meets it: metadata and protection from the agent beside its container, and ECS's
API, on one real HTTP port.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

TASK_ARN = "arn:aws:ecs:us-east-1:111111111111:task/evenflow-test/0123456789abcdef0123456789abcdef"
CLUSTER = "evenflow-test"
SERVICE = "evenflow-test-handler"
DEPLOYMENT = "ecs-svc/1111111111111111111"
HOST = "10.20.1.5"
_API = "AmazonEC2ContainerServiceV20141113."
_PROTECTION_FIELDS = {"ProtectionEnabled", "ExpiresInMinutes"}


def deployment(
    deployment_id: str, status: str, *, running: int = 1, desired: int = 1
) -> dict[str, Any]:
    """A deployment of the service, as DescribeServices says it."""
    return {"id": deployment_id, "status": status, "runningCount": running, "desiredCount": desired}


class EcsAgent:
    """One task of a service.

    `refusing` answers the API's calls, and the agent's on its behalf, with AccessDenied; `blocked`
    is the reason for which ECS doesn't protect the task.
    """

    def __init__(self) -> None:
        self.last_status = "RUNNING"
        self.deployments = [deployment(DEPLOYMENT, "PRIMARY")]
        self.refusing = False
        self.blocked: str | None = None
        self.asked = asyncio.Semaphore(0)
        """Released once for each time that it was asked about the task."""
        self.protections: list[tuple[bool, int | None]] = []
        """What was put: whether it is enabled, and for how many minutes."""
        self.protection_put = asyncio.Semaphore(0)
        """Released once for each of these."""
        self.url = ""

    @property
    def agent_uri(self) -> str:
        """What ECS_AGENT_URI is in this task."""
        return f"{self.url}/api/container"

    @property
    def environment(self) -> dict[str, str]:
        """What a container in this task has."""
        return {
            "ECS_CONTAINER_METADATA_URI_V4": f"{self.url}/v4/container",
            "ECS_AGENT_URI": self.agent_uri,
            "AWS_ENDPOINT_URL_ECS": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
        }

    async def metadata(self, _request: web.Request) -> web.Response:
        """`GET ${ECS_CONTAINER_METADATA_URI_V4}/task`."""
        networks = [{"NetworkMode": "awsvpc", "IPv4Addresses": [HOST]}]
        return web.json_response(
            {
                "Cluster": CLUSTER,
                "TaskARN": TASK_ARN,
                "KnownStatus": "RUNNING",
                "Containers": [{"Networks": networks}],
            }
        )

    async def protection(self, request: web.Request) -> web.Response:
        """`PUT ${ECS_AGENT_URI}/task-protection/v1/state`, as the agent's source has it."""
        state = await request.json()
        enabled = state.get("ProtectionEnabled")
        if not isinstance(enabled, bool) or not state.keys() <= _PROTECTION_FIELDS:
            return _agent_error(
                "InvalidParameterException", "UpdateTaskProtection: failed to decode request"
            )
        if self.refusing:
            return _agent_error(
                "AccessDeniedException", "not authorized to perform: ecs:UpdateTaskProtection"
            )
        self.protections.append((enabled, state.get("ExpiresInMinutes")))
        self.protection_put.release()
        if enabled and self.blocked is not None:
            return web.json_response(
                {"failure": {"Arn": TASK_ARN, "Detail": None, "Reason": self.blocked}}
            )
        expires = "2027-01-15T08:02:00Z" if enabled else None
        return web.json_response(
            {
                "protection": {
                    "ExpirationDate": expires,
                    "ProtectionEnabled": enabled,
                    "TaskArn": TASK_ARN,
                }
            }
        )

    async def api(self, request: web.Request) -> web.Response:
        """The API's JSON protocol."""
        operation, asked = request.headers["X-Amz-Target"].removeprefix(_API), await request.json()
        if operation == "DescribeTasks":
            assert asked == {"cluster": CLUSTER, "tasks": [TASK_ARN]}
            self.asked.release()
            task = {"taskArn": TASK_ARN, "lastStatus": self.last_status, "startedBy": DEPLOYMENT}
            found: dict[str, Any] = {
                "tasks": [{**task, "group": f"service:{SERVICE}"}],
                "failures": [],
            }
        else:
            assert operation == "DescribeServices"
            assert asked == {"cluster": CLUSTER, "services": [SERVICE]}
            found = {
                "services": [{"serviceName": SERVICE, "deployments": self.deployments}],
                "failures": [],
            }
        if self.refusing:
            return _json({"__type": "AccessDeniedException", "message": "not allowed"}, 400)
        return _json(found, 200)


def _json(body: object, status: int) -> web.Response:
    return web.Response(
        text=json.dumps(body), status=status, content_type="application/x-amz-json-1.1"
    )


def _agent_error(code: str, message: str) -> web.Response:
    return web.json_response(
        {"error": {"Arn": TASK_ARN, "Code": code, "Message": message}}, status=400
    )


@asynccontextmanager
async def ecs_agent() -> AsyncIterator[EcsAgent]:
    """Serve one on a free port."""
    agent = EcsAgent()
    app = web.Application()
    app.add_routes(
        [
            web.get("/v4/container/task", agent.metadata),
            web.put("/api/container/task-protection/v1/state", agent.protection),
            web.post("/", agent.api),
        ]
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    agent.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield agent
    finally:
        await runner.cleanup()
