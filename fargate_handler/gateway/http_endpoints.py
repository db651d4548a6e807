"""The HTTP server over aiohttp: routes, middlewares, and the page."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING, cast

from aiohttp import hdrs, web

from evenflow.fargate_handler.gateway.ag_ui.endpoint import RunEndpoint
from evenflow.fargate_handler.gateway.ai_sdk.endpoint import ChatEndpoint
from evenflow.fargate_handler.gateway.anthropic.endpoint import MessagesEndpoint
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.deadline import ClientTimer
from evenflow.fargate_handler.gateway.connections.handshake import (
    asks_for_upgrade,
    head_fault,
    no_upgrade,
)
from evenflow.fargate_handler.gateway.documents_endpoint import DocumentsEndpoint
from evenflow.fargate_handler.gateway.durable_streams.endpoint import StreamsEndpoint
from evenflow.fargate_handler.gateway.evenflow.entries_endpoint import EntriesEndpoint
from evenflow.fargate_handler.gateway.evenflow.events_endpoint import EventsEndpoint
from evenflow.fargate_handler.gateway.evenflow.message_endpoint import MessageEndpoint
from evenflow.fargate_handler.gateway.evenflow.presence_endpoint import PresenceEndpoint
from evenflow.fargate_handler.gateway.evenflow.session_endpoint import SessionEndpoint
from evenflow.fargate_handler.gateway.evenflow.usage_endpoint import UsageEndpoint
from evenflow.fargate_handler.gateway.http.answers import RequestHandler
from evenflow.fargate_handler.gateway.http.call_intake import CallIntake
from evenflow.fargate_handler.gateway.http.called_url import public_urls_of
from evenflow.fargate_handler.gateway.http.connection import HttpConnection
from evenflow.fargate_handler.gateway.http.cookies import released_cookie, sticky_cookie
from evenflow.fargate_handler.gateway.http.cors import Cors
from evenflow.fargate_handler.gateway.http.error_shapes import (
    error_in_shape,
    errors_in_shape,
    expectation,
)
from evenflow.fargate_handler.gateway.http.http_figures import HttpFigures
from evenflow.fargate_handler.gateway.http.rate_answers import RateAnswers
from evenflow.fargate_handler.gateway.http.request_body import node_full
from evenflow.fargate_handler.gateway.http.verified_request import address_of, credentials_of
from evenflow.fargate_handler.gateway.openai_chat.endpoint import (
    ChatCompletionsEndpoint,
)
from evenflow.fargate_handler.gateway.openai_chat.models_endpoint import ModelsEndpoint
from evenflow.fargate_handler.gateway.openai_responses.endpoint import ResponsesEndpoint
from evenflow.fargate_handler.gateway.operator_endpoints import OperatorEndpoints, is_metrics_port
from evenflow.fargate_handler.gateway.websocket_endpoint import WebSocketEndpoint
from evenflow.stream_core.auth.allowed_origins import page_policy
from evenflow.stream_core.base.errors import (
    EvenflowError,
    HostNotAllowed,
    NotFound,
    OriginNotAllowed,
    UnsupportedMediaType,
)
from evenflow.stream_core.bounds.shares import Shares
from evenflow.stream_core.http import routes
from evenflow.stream_core.http.http_contract import path_not_found
from evenflow.stream_core.http.routes import ROUTES, Route, ServedBy, paths_of
from evenflow.stream_core.metrics.metric_catalogue import (
    HTTP_REFUSED,
    MESSAGES_REFUSED,
    REFUSAL_RATE,
)

if TYPE_CHECKING:
    from aiohttp.http import WebSocketReader

_NOT_FOR_CLIENTS = paths_of(ServedBy.MACHINE)
_MODULES = paths_of(ServedBy.MODULES)
_DOCUMENTS = {routes.OPENAPI.path, routes.ASYNCAPI.path}
_WITHOUT_COOKIE = _NOT_FOR_CLIENTS | _DOCUMENTS | _MODULES
_NO_SNIFFING = {"X-Content-Type-Options": "nosniff"}
_FOR_ANY_PAGE = {"Access-Control-Allow-Origin": "*", **_NO_SNIFFING}

NO_PAGE = (
    "this server has no page: /, /evenflow-chat.js and /client.js are not found, all else works. "
    "Install it again where npm and Node.js 20.19 or later are, or set EVENFLOW_PAGE to the folder "
    "of a built page; `make web/dist/index.html` in a clone builds one"
)
"""The warning at the start, and the answer at the page's paths, if no page was built."""


class HttpEndpoints:
    """Routes requests to the endpoints.

    Args:
        page: the folder of the built page (`index.html`, `assets/`) and the two modules.
        operators: the endpoints of operators and load balancers.
        websockets: takes a connection whose request asks for a WebSocket.
    """

    def __init__(
        self,
        context: GatewayContext,
        page: Path,
        operators: OperatorEndpoints,
        websockets: WebSocketEndpoint,
    ) -> None:
        self._context = context
        self._intake = CallIntake(context)
        self._operators = operators
        self._websockets = websockets
        self._page = page
        self._assets = {
            asset.name: asset for asset in (page / "assets").glob("*") if asset.is_file()
        }
        self._answering: Shares[str] = Shares(context.limits.requests_per_node)
        cors = Cors(context.site, self._intake, exempt_paths=_NOT_FOR_CLIENTS | _MODULES)
        figures = HttpFigures(context.metrics, _NOT_FOR_CLIENTS)
        app = web.Application(
            middlewares=[
                *(figures.note_begin, errors_in_shape, cors.answer_preflight, self._within_bounds),
                *(self._check_host, self._upgrades, cors.check_origin),
            ]
        )
        app.add_routes(self._routes())
        app.on_response_prepare.append(self._bind_to_this_node)
        app.on_response_prepare.append(cors.add_headers)
        app.on_response_prepare.append(RateAnswers(context).add_headers)
        app.on_response_prepare.append(figures.count_answer)
        # When its client disconnects, a request is cancelled, and stops reading.
        self._runner = web.AppRunner(
            app, handle_signals=False, handler_cancellation=True, shutdown_timeout=1.0
        )

    async def start(self) -> None:
        """Prepare for connections."""
        await self._runner.setup()

    async def stop(self) -> None:
        """Close the connections."""
        await self._runner.cleanup()

    def take(self, transport: asyncio.Transport, received: bytes, head_timer: ClientTimer) -> None:
        """Give a connection to aiohttp, with the first bytes that came over it.

        Args:
            head_timer: runs until its first head is whole.
        """
        # A client that reads nothing of its answer in this time is disconnected. An event stream
        # that is too slow ends sooner, and is counted.
        _limit_unacknowledged_time(transport, self._context.limits.pong_timeout_seconds)
        server = cast("web.Server", self._runner.server)
        protocol = HttpConnection(server, self._context, transport, received, head_timer)
        protocol.connection_made(transport)
        if protocol.peername is None:
            # It was reset while its request came. Without an address it cannot be counted.
            transport.abort()
            return
        transport.set_protocol(protocol)
        protocol.data_received(received)

    def _routes(self) -> list[web.AbstractRouteDef]:
        messages = MessageEndpoint(self._context)
        models = ModelsEndpoint(self._context)
        responses = ResponsesEndpoint(self._context)
        chats, runs = ChatEndpoint(self._context), RunEndpoint(self._context)
        documents = DocumentsEndpoint(self._context.limits)
        sessions = SessionEndpoint(self._context)
        endpoints: dict[Route, RequestHandler] = {
            routes.OPEN_SESSION: sessions.post,
            routes.MESSAGES: sessions.messages,
            routes.END_SESSION: sessions.end,
            routes.SHARE: sessions.share,
            routes.POST_MESSAGE: messages.post,
            routes.POLL: messages.poll,
            routes.CANCEL: messages.cancel,
            routes.TOOL_RESULT: messages.take_result,
            routes.EVENTS: EventsEndpoint(self._context).get,
            routes.PRESENCE: PresenceEndpoint(self._context).get,
            routes.ENTRIES: EntriesEndpoint(self._context).get,
            routes.USAGE: UsageEndpoint(self._context).get,
            routes.COMPLETIONS: ChatCompletionsEndpoint(self._context).post,
            routes.CREATE_RESPONSE: responses.post,
            routes.RESPONSES_WEBSOCKET: self._ws,
            routes.GET_RESPONSE: responses.get,
            routes.DELETE_RESPONSE: responses.delete,
            routes.CANCEL_RESPONSE: responses.cancel,
            routes.INPUT_ITEMS: responses.input_items,
            routes.LIST_MODELS: models.list,
            routes.GET_MODEL: models.get,
            routes.ANTHROPIC_MESSAGES: MessagesEndpoint(self._context).post,
            routes.STREAM: StreamsEndpoint(self._context).get,
            routes.CHAT: chats.post,
            routes.CHAT_MESSAGES: chats.messages,
            routes.CHAT_STREAM: chats.stream,
            routes.CHAT_STOP: chats.stop,
            routes.RUN: runs.post,
            routes.RUN_STOP: runs.stop,
            routes.OPENAPI: documents.get,
            routes.ASYNCAPI: documents.get,
            routes.HEALTH: self._operators.health,
            routes.METRICS: self._operators.metrics,
            routes.DRAIN: self._operators.drain,
            routes.OPERATOR: self._operators.ask,
            routes.WEBSOCKET: self._ws,
            routes.REALTIME: self._ws,
            routes.OPENAI_REALTIME: self._ws,
            routes.INDEX: self._index,
            routes.ASSET: self._asset,
            routes.CLIENT_MODULE: self._module,
            routes.ELEMENT_MODULE: self._module,
        }
        return [_served(route, self._intake.admitted(route, endpoints[route])) for route in ROUTES]

    @web.middleware
    async def _check_host(
        self, request: web.Request, handler: RequestHandler
    ) -> web.StreamResponse:
        """Answer only to a name of this server, and only metrics at their own port."""
        context = self._context
        try:
            context.site.allowed_hosts.check(request.headers.get("Host"))
            if request.path != routes.METRICS.path and is_metrics_port(request, context.site):
                raise path_not_found(request.path)
            return await handler(request)
        except (HostNotAllowed, OriginNotAllowed, UnsupportedMediaType) as refused:
            context.metrics.labelled(HTTP_REFUSED).count(refused.code)
            await self._intake.throttle_anonymous(request)
            raise

    @web.middleware
    async def _upgrades(self, request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        """Hand over a connection that asks for a WebSocket later than in its first request.

        Proxies that reuse connections do so. All earlier requests were answered.
        """
        headers = request.headers
        if request.method != "GET" or "Upgrade" not in headers:
            return await handler(request)
        if not asks_for_upgrade(headers.getall("Connection", ()), headers.getall("Upgrade")):
            return await handler(request)
        head = _head_of(request)
        fault = head_fault(head)
        if fault is not None:
            # A proxy that doesn't look at the answer takes what follows for a WebSocket's.
            answer = error_in_shape(request, fault)
            answer.force_close()
            return answer
        await request.writer.drain()
        transport, received_behind = _detach(request)
        if not transport.is_closing():
            _limit_unacknowledged_time(transport, 0)
            self._websockets.take(transport, head + b"\r\n\r\n" + received_behind)
            transport.resume_reading()
        raise asyncio.CancelledError

    @web.middleware
    async def _within_bounds(
        self, request: web.Request, handler: RequestHandler
    ) -> web.StreamResponse:
        accepted = self._context.accepted
        address = address_of(request, self._context.site)
        from_client = request.path not in _NOT_FOR_CLIENTS
        if from_client:
            if accepted.refuses(request.transport):
                answer = error_in_shape(request, self._count_full())
                answer.force_close()
                return answer
            if not self._answering.has_room(address) and not accepted.cut_oldest_body():
                raise self._count_full()
        self._answering.add(address)
        try:
            # A body is counted first, and waits for turns piece by piece.
            if from_client and request.content.is_eof():
                await self._context.accepted.turns.wait(
                    address, credentials_of(request), reads=request.method == hdrs.METH_GET
                )
            if request.match_info.http_exception is not None:
                await self._intake.throttle_anonymous(request)
            return await handler(request)
        finally:
            self._answering.remove(address)

    def _count_full(self) -> EvenflowError:
        """Count a request that this node has no place for. Returns its error."""
        metrics, error = self._context.metrics, node_full()
        metrics.labelled(MESSAGES_REFUSED).count(error.code)
        metrics.ratio(REFUSAL_RATE).count_both()
        return error

    async def _bind_to_this_node(self, request: web.Request, answer: web.StreamResponse) -> None:
        context = self._context
        if request.path in _WITHOUT_COOKIE:
            return
        if answer.headers.get("Cache-Control", "").startswith("public"):
            return  # a shared cache would give one client's cookie to all
        stays = not (context.orchestrator.draining or context.registry.full)
        site = context.site
        cookie = sticky_cookie(site, context.wall_time()) if stays else released_cookie(site)
        answer.headers.add("Set-Cookie", cookie)

    async def _ws(self, _request: web.Request) -> web.StreamResponse:
        raise no_upgrade()

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        # Only files that were in the folder at the start, by their names: no path can lead
        # elsewhere.
        asset = self._assets.get(request.match_info["name"])
        if asset is None:
            raise NotFound(f"there is no {request.path[:200]}", code="path_not_found")
        return web.FileResponse(
            asset, headers={"Cache-Control": "public, max-age=3600", **_FOR_ANY_PAGE}
        )

    async def _module(self, request: web.Request) -> web.StreamResponse:
        module = self._page / request.path.removeprefix("/")
        if not module.is_file():
            raise NotFound(NO_PAGE, code="path_not_found")
        # Their names stay when their content changes, so browsers ask each time whether it has
        # (ETag).
        return web.FileResponse(module, headers={"Cache-Control": "no-cache", **_FOR_ANY_PAGE})

    async def _index(self, request: web.Request) -> web.StreamResponse:
        index = self._page / "index.html"
        if not index.is_file():
            raise NotFound(NO_PAGE, code="path_not_found")
        ws_url, _ = public_urls_of(request, self._context.site)
        ws_origins = [ws_url] if "://" in ws_url else []
        headers = {
            "Content-Security-Policy": page_policy(*ws_origins),
            **_NO_SNIFFING,
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
        }
        return web.FileResponse(index, headers=headers)


def _served(route: Route, endpoint: RequestHandler) -> web.RouteDef:
    """A route for aiohttp. A GET also answers HEAD."""
    path = route.path.replace("+}", ":.+}")
    if route.method == "GET":
        return web.get(path, endpoint)
    return web.route(route.method, path, endpoint, expect_handler=expectation)


def _limit_unacknowledged_time(transport: asyncio.Transport, seconds: float) -> None:
    """Disconnect a client that acknowledges no bytes for `seconds`. 0: never."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        transport.get_extra_info("socket").setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000)
        )


def _head_of(request: web.Request) -> bytes:
    """A request's head as it came, without the empty line at its end."""
    major, minor = request.version
    line = f"{request.method} {request.raw_path} HTTP/{major}.{minor}"
    headers = (name + b": " + value for name, value in request.raw_headers)
    return b"\r\n".join((line.encode("utf-8", "surrogateescape"), *headers))


class _Tail:
    """Receives from aiohttp the bytes behind a request that asks for another protocol."""

    def __init__(self) -> None:
        self.received = b""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Add received bytes."""
        self.received += data
        return False, b""

    def feed_eof(self) -> None:
        """Do nothing: aiohttp has released the connection."""


def _detach(request: web.Request) -> tuple[asyncio.Transport, bytes]:
    """Detach a connection from aiohttp, with the bytes behind the request, which is cancelled."""
    protocol, tail = cast("HttpConnection", request.protocol), _Tail()
    transport = protocol.release()
    protocol.set_parser(cast("WebSocketReader", tail))
    protocol.connection_lost(None)
    return transport, tail.received
