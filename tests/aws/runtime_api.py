"""Lambda's Runtime API of one function: hands each event to an idle execution environment and
takes its answer.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tests.aws.function_runtime import INIT_ERROR, INVOCATION, NEXT


class ThrottledError(Exception):
    """Every execution environment is busy: the function's reserved concurrency is used up."""


class FunctionError(Exception):
    """The handler raised, or took longer than its timeout. The message says what."""


@dataclass(eq=False)
class _Invocation:
    event: bytes
    deadline_ms: int
    answer: asyncio.Future[bytes]
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))


class RuntimeApi:
    """One function's.

    Args:
        arn: the function's.
        environments: how many of them ask here.
        timeout_seconds: how long an invocation may take.
    """

    def __init__(self, arn: str, environments: int, timeout_seconds: float) -> None:
        self._arn = arn
        self._environments = environments
        self._timeout_seconds = timeout_seconds
        self._ready = asyncio.Event()
        self._asked: set[object] = set()
        self._waiting: asyncio.Queue[_Invocation] = asyncio.Queue()
        self._idle = 0
        self._running: dict[str, _Invocation] = {}
        self._init_error: str | None = None

    def application(self) -> web.Application:
        """Serves the environments."""
        app = web.Application(client_max_size=8 * 2**20)
        app.add_routes(
            [
                web.get(NEXT, self._next),
                web.post(INVOCATION + "{request_id}/response", self._response),
                web.post(INVOCATION + "{request_id}/error", self._error),
                web.post(INIT_ERROR, self._failed_to_start),
            ]
        )
        return app

    async def started(self) -> None:
        """Return when every environment waits for an event.

        Raises:
            FunctionError: one could not load the function.
        """
        await self._ready.wait()
        if self._init_error is not None:
            raise FunctionError(self._init_error)

    async def invoke(self, event: dict[str, Any]) -> Any:
        """Let the function handle `event`.

        Raises:
            ThrottledError: no environment is idle.
            FunctionError: the handler failed.
        """
        if self._idle <= self._waiting.qsize():
            raise ThrottledError
        deadline_ms = int((time.time() + self._timeout_seconds) * 1000)
        invocation = _Invocation(
            orjson.dumps(event), deadline_ms, asyncio.get_running_loop().create_future()
        )
        self._waiting.put_nowait(invocation)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return orjson.loads(await invocation.answer)
        except TimeoutError:
            raise FunctionError(f"no answer within {self._timeout_seconds:g} s") from None

    async def _next(self, _request: web.Request) -> web.Response:
        self._idle += 1
        if self._idle == self._environments:
            self._ready.set()
        try:
            invocation = await self._waiting.get()
        finally:
            self._idle -= 1
        self._running[invocation.request_id] = invocation
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": self._arn,
        }
        return web.Response(body=invocation.event, content_type="application/json", headers=headers)

    async def _response(self, request: web.Request) -> web.Response:
        answer = self._running.pop(request.match_info["request_id"]).answer
        if not answer.done():
            answer.set_result(await request.read())
        return web.Response(status=202)

    async def _error(self, request: web.Request) -> web.Response:
        answer = self._running.pop(request.match_info["request_id"]).answer
        error = orjson.loads(await request.read())
        if not answer.done():
            answer.set_exception(FunctionError(f"{error['errorType']}: {error['errorMessage']}"))
        return web.Response(status=202)

    async def _failed_to_start(self, request: web.Request) -> web.Response:
        error = orjson.loads(await request.read())
        self._init_error = (
            f"the function cannot be loaded: {error['errorType']}: {error['errorMessage']}"
        )
        self._ready.set()
        return web.Response(status=202)
