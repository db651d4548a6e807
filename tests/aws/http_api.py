"""API Gateway's HTTP API in front of Lambda functions: requests become events of payload format
2.0.

`python -m tests.aws.http_api CONFIGURATION` with the JSON of `HttpApiConfiguration`. In the same
process, for there is nothing to measure in them: Lambda's side of each function (`runtime_api`),
and the files of the page, which AWS has in S3.

What differs from AWS: no throttling (`ThrottlingRateLimit`), no access log; an environment whose
invocation timed out is not ended.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ValidationError

from tests.aws.runtime_api import FunctionError, RuntimeApi, ThrottledError
from tests.integration.http_api_event import http_api_event

_HOST = "127.0.0.1"
_DEFAULT = "$default"
LISTENING = "the functions' environments may ask"
SERVING = "the HTTP API serves"


class FunctionAddress(BaseModel):
    """A function: where its environments ask for events."""

    name: str
    arn: str
    runtime_port: int
    environments: int
    timeout_seconds: float


class HttpApiConfiguration(BaseModel):
    """What is served.

    Args:
        routes: route key (`POST /session`) → name of the function.
        page: the folder of the built page.
    """

    account: str
    port: int
    page_port: int
    page: str
    routes: dict[str, str]
    functions: list[FunctionAddress]


class _FunctionAnswer(BaseModel):
    """What a function returns to the HTTP API."""

    statusCode: int  # noqa: N815
    headers: dict[str, str | int | float | bool] = {}
    cookies: list[str] = []
    body: str = ""
    isBase64Encoded: bool = False  # noqa: N815


class HttpApi:
    """The routes of one API.

    Args:
        functions: by name.
    """

    def __init__(
        self, configuration: HttpApiConfiguration, functions: Mapping[str, RuntimeApi]
    ) -> None:
        self._account = configuration.account
        self._functions = functions
        self._routes = configuration.routes

    def application(self) -> web.Application:
        """Serves the API."""
        app = web.Application(client_max_size=10 * 2**20)
        for route_key, function in sorted(self._routes.items(), key=_default_last):
            method, _, path = route_key.partition(" ")
            endpoint = self._endpoint(route_key, self._functions[function])
            app.router.add_route(
                "*" if method in ("ANY", _DEFAULT) else method, path or "/{_:.*}", endpoint
            )
        if _DEFAULT not in self._routes:
            app.router.add_route("*", "/{_:.*}", self._no_route)
        return app

    def _endpoint(self, route_key: str, function: RuntimeApi) -> Any:
        async def endpoint(request: web.Request) -> web.Response:
            try:
                return _http_answer(await function.invoke(await self._event(route_key, request)))
            except ThrottledError:
                return _message(503, "Service Unavailable")
            except (FunctionError, ValidationError, binascii.Error) as error:
                print(f"{route_key} failed: {error}", file=sys.stderr, flush=True)
                return _message(500, "Internal Server Error")

        return endpoint

    async def _no_route(self, _request: web.Request) -> web.Response:
        return _message(404, "Not Found")

    async def _event(self, route_key: str, request: web.Request) -> dict[str, Any]:
        headers = {name.lower(): ",".join(request.headers.getall(name)) for name in request.headers}
        cookies = headers.pop("cookie", None)
        del headers["host"]
        event = http_api_event(request.method, request.raw_path, await request.read(), headers)
        event["routeKey"] = route_key
        event["requestContext"] |= {
            "accountId": self._account,
            "routeKey": route_key,
            "timeEpoch": int(time.time() * 1000),
        }
        if cookies:
            event["cookies"] = [cookie.strip() for cookie in cookies.split(";")]
        if route_key != _DEFAULT and request.match_info:
            event["pathParameters"] = dict(request.match_info)
        return event


def _default_last(route: tuple[str, str]) -> bool:
    return route[0] == _DEFAULT


def _http_answer(returned: Any) -> web.Response:
    """What the client gets.

    Raises:
        ValidationError, binascii.Error: the function returned something else than an answer.
    """
    answer = _FunctionAnswer.model_validate(returned)
    body = (
        base64.b64decode(answer.body, validate=True)
        if answer.isBase64Encoded
        else answer.body.encode()
    )
    response = web.Response(status=answer.statusCode, body=body)
    for name, value in answer.headers.items():
        response.headers[name] = str(value)
    for cookie in answer.cookies:
        response.headers.add("Set-Cookie", cookie)
    return response


def _message(status: int, message: str) -> web.Response:
    return web.json_response({"message": message}, status=status)


def _page(folder: str) -> web.Application:
    async def index(_request: web.Request) -> web.StreamResponse:
        return web.FileResponse(f"{folder}/index.html", headers={"Cache-Control": "no-cache"})

    app = web.Application()
    app.add_routes(
        [
            web.get("/", index),
            web.get("/index.html", index),
            web.static("/assets", f"{folder}/assets"),
        ]
    )
    return app


async def _serve(configuration: HttpApiConfiguration) -> None:
    leave = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, leave.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    functions = {
        f.name: RuntimeApi(f.arn, f.environments, f.timeout_seconds)
        for f in configuration.functions
    }
    async with AsyncExitStack() as stack:
        for function in configuration.functions:
            await _listen(stack, functions[function.name].application(), function.runtime_port)
        print(LISTENING, flush=True)
        await asyncio.gather(*(function.started() for function in functions.values()))
        await _listen(stack, _page(configuration.page), configuration.page_port)
        await _listen(stack, HttpApi(configuration, functions).application(), configuration.port)
        print(SERVING, ", ".join(configuration.routes), flush=True)
        await leave.wait()


async def _listen(stack: AsyncExitStack, app: web.Application, port: int) -> None:
    # The environments' waiting requests end when the server does: there is nothing to shut down in
    # order.
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=0.1
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, _HOST, port).start()


if __name__ == "__main__":
    asyncio.run(_serve(HttpApiConfiguration.model_validate_json(sys.argv[1])))
