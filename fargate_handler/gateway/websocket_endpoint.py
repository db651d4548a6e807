"""The WebSocket endpoint: checks the handshake, and hands the connection to picows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qs

import orjson
from picows import (
    WSAutoPingStrategy,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
)

from evenflow.fargate_handler.gateway.connections.access_control import AccessGrant
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.handshake import check_handshake, head_fault
from evenflow.fargate_handler.gateway.connections.rate_keys import anonymous_rate_keys
from evenflow.fargate_handler.gateway.evenflow.client_admission import admit_client, check_admission
from evenflow.fargate_handler.gateway.http.cookies import released_cookie, sticky_cookie
from evenflow.fargate_handler.gateway.http.http_figures import HttpFigures
from evenflow.fargate_handler.gateway.http.request_body import node_full
from evenflow.fargate_handler.gateway.http.senders import sender_with
from evenflow.fargate_handler.gateway.openai_responses.socket import ResponsesSocket
from evenflow.fargate_handler.gateway.operator_endpoints import is_metrics_port
from evenflow.fargate_handler.gateway.realtime.openai_clients import (
    BETA_HEADER,
    is_openai_handshake,
    reject_openai_client,
)
from evenflow.fargate_handler.gateway.websocket.websocket_protocol import (
    ParserLog,
    WebSocketProtocol,
)
from evenflow.fargate_handler.gateway.websocket.websocket_transport import (
    WEBSOCKET as OVER_WEBSOCKET,
)
from evenflow.fargate_handler.gateway.websocket.websocket_transport import (
    WebSocketClient,
    WebSocketTransport,
)
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.stream_core.auth.rights import Right, check_right
from evenflow.stream_core.base.client_address import Client
from evenflow.stream_core.base.errors import (
    EvenflowError,
    HostNotAllowed,
    InternalError,
    InvalidRequest,
    NotFound,
    OriginNotAllowed,
    Overloaded,
)
from evenflow.stream_core.base.trace_context import TRACEPARENT, known_traceparent
from evenflow.stream_core.http.http_contract import error_headers
from evenflow.stream_core.http.routes import (
    OPENAI_REALTIME,
    REALTIME,
    RESPONSES_WEBSOCKET,
    ROUTES,
    WEBSOCKET,
    Bound,
    Credential,
    Route,
)
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.dialect import CompactDialect, Dialect, subprotocols
from evenflow.stream_core.protocols.evenflow.session_init import bearer
from evenflow.stream_core.protocols.realtime.dialect import RealtimeDialect
from evenflow.stream_core.records.connection_records import RejectionRecord

# The subprotocols by path. A client that offers none gets the first one.
_DIALECTS: dict[str, tuple[Dialect, ...]] = {
    WEBSOCKET.path: (Dialect(), CompactDialect()),
    REALTIME.path: (RealtimeDialect(),),
    OPENAI_REALTIME.path: (RealtimeDialect(),),
}
_ROUTES = {route.path: route for route in ROUTES if route.terms.bound is Bound.SOCKET}
_BEARER = "bearer."
# The session rejects larger frames with a reason. picows rejects those beyond this multiple.
_FRAME_SLACK = 2
_SWITCHING_PROTOCOLS = 101

_logger = logging.getLogger(__name__)


class _Handshake(NamedTuple):
    """A request for a WebSocket, and its time, in seconds on the monotonic clock."""

    request: WSUpgradeRequest
    client: Client
    route: Route
    asked_at: float


class WebSocketEndpoint:
    """Accepts WebSocket handshakes. Rejections have the shape of all errors."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._parser_log = ParserLog(context.metrics.counter(catalogue.PARSER_ERRORS))
        self._figures = HttpFigures(context.metrics)

    def take(self, transport: asyncio.Transport, received: bytes) -> bytes | None:
        """Hand a connection to picows, unless the head of the handshake is faulty.

        Returns:
            The answer that rejects it, or None.

        Args:
            received: the whole head, and the bytes after it.
        """
        accepted = self._context.accepted
        fault: EvenflowError | None = head_fault(received.partition(b"\r\n\r\n")[0])
        if fault is None and is_metrics_port(transport, self._context.site):
            fault = NotFound("there are no WebSockets at this port", code="path_not_found")
        if fault is None and not accepted.serve(transport) and accepted.refuses(transport):
            fault = node_full()
        if fault is not None:
            return self.rejection(fault)
        peer = transport.get_extra_info("peername")
        if peer is None:
            transport.abort()  # it was reset meanwhile, so its address is not known any more
            return None
        # A Unix socket has no address.
        protocol = self._protocol(
            peer[0] if isinstance(peer, tuple) else "", self._most_frame_bytes(received)
        )
        protocol.accepted = accepted
        protocol.connection_made(transport)
        transport.set_protocol(protocol)
        while received and not transport.is_closing():
            window = protocol.get_buffer(-1)[: len(received)]
            window[:] = received[: len(window)]
            received = received[len(window) :]
            protocol.buffer_updated(len(window))
        return None

    def rejection(self, error: EvenflowError) -> bytes:
        """The answer that rejects a handshake with this error."""
        if isinstance(error, Overloaded):
            self._context.metrics.counter(catalogue.CONNECTIONS_REFUSED).value += 1
        response = self._error_response(error)
        response.headers["Connection"] = "close"
        return bytes(response.to_bytes())

    def _most_frame_bytes(self, head: bytes) -> int:
        """The largest frame at the path in a head: at that of Responses, a whole request."""
        limits = self._context.limits
        path = head.partition(b"?")[0].split(b" ")[1:2]
        is_of_responses = path == [RESPONSES_WEBSOCKET.path.encode()]
        most_bytes = limits.request_bytes if is_of_responses else limits.message_bytes
        return most_bytes * _FRAME_SLACK

    def _protocol(self, peer: str, most_frame_bytes: int) -> WebSocketProtocol:
        # What picows' `ws_create_server` makes for each connection. It would not let us see the
        # head first.
        return WebSocketProtocol(
            host_port=None,
            ws_path=None,
            is_client_side=False,
            ws_listener_factory=partial(self._upgrade, peer),
            logger=self._parser_log,
            disconnect_on_exception=True,
            websocket_handshake_timeout=None,  # its head is here
            enable_auto_ping=False,
            auto_ping_idle_timeout=0,
            auto_ping_reply_timeout=0,
            auto_ping_strategy=WSAutoPingStrategy.PING_WHEN_IDLE,
            enable_auto_pong=False,
            max_frame_size=most_frame_bytes,
            extra_headers=None,
            read_buffer_init_size=512,
        )

    def _upgrade(self, peer: str, request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        asked_at = self._context.monotonic()
        try:
            accepted = self._accept(peer, request, asked_at)
        except EvenflowError as error:
            if isinstance(error, HostNotAllowed | OriginNotAllowed):
                self._context.metrics.labelled(catalogue.HTTP_REFUSED).count(error.code)
            return WSUpgradeResponseWithListener(self._error_response(error), None)
        except Exception:
            _logger.exception("a handshake failed")
            failed = InternalError("the handshake failed; try again", code="internal_error")
            return WSUpgradeResponseWithListener(self._error_response(failed), None)
        self._figures.count_handshake(_SWITCHING_PROTOCOLS)
        return accepted

    def _accept(
        self, peer: str, request: WSUpgradeRequest, asked_at: float
    ) -> WSUpgradeResponseWithListener:
        context = self._context
        context.site.allowed_hosts.check(request.headers.get("Host"))
        path, _, query = request.path.decode("latin-1").partition("?")
        client = context.site.client(peer, request.headers)
        route = _ROUTES.get(path)
        if route is None:
            raise NotFound(
                f"there is no such path here; WebSockets are at {', '.join(_DIALECTS)}",
                code="path_not_found",
            )
        check_handshake(request)
        parameters = parse_qs(query)
        offered = subprotocols(request.headers.getall("Sec-WebSocket-Protocol", ()))
        beta = request.headers.get(BETA_HEADER)
        if route is OPENAI_REALTIME and is_openai_handshake(offered, parameters, beta):
            context.calls.charge(anonymous_rate_keys(client.address), route.terms.cost, asked_at)
            return reject_openai_client(offered)
        handshake = _Handshake(request, client, route, asked_at)
        self._check_origin(handshake)
        if route is RESPONSES_WEBSOCKET:
            return self._accept_responses(handshake)
        return self._accept_client(handshake, offered, replaces=parameters.get("replace") == ["1"])

    def _accept_client(
        self, handshake: _Handshake, offered: list[str], *, replaces: bool
    ) -> WSUpgradeResponseWithListener:
        """Accept a client of a session, by its token, a share or a ticket."""
        context, (request, client, route, asked_at) = self._context, handshake
        claims = context.access.tokens.verify_any(_token(request, offered), context.wall_time())
        context.access.check_grant(AccessGrant.of(claims))
        self._check_credential(claims.channel.tenant, claims.may, handshake)
        dialect, answer_headers = _select(offered, _DIALECTS[route.path])
        if replaces:
            check_right(Right.WRITE, claims.may)
        connection = admit_client(
            context,
            claims,
            dialect,
            address=client.address,
            replaces=replaces,
            asked_at=asked_at,
        )
        return self._accepted(connection, answer_headers)

    def _accept_responses(self, handshake: _Handshake) -> WSUpgradeResponseWithListener:
        """Accept a client of OpenAI's Responses API."""
        context, (request, client, _, asked_at) = self._context, handshake
        credential = bearer(request.headers.get("Authorization"))
        if context.access.identities is not None:
            # A handshake cannot wait for keys: its client has to try again.
            context.access.identities.look_at(credential)
        sender = sender_with(credential, client.address, context)
        self._check_credential(sender.tenant, sender.may, handshake)
        sender = sender._replace(traceparent=known_traceparent(request.headers.get(TRACEPARENT)))
        connection = ResponsesSocket(context, sender, asked_at)
        check_admission(context, connection)
        return self._accepted(connection, {})

    def _accepted(
        self, connection: WebSocketClient, headers: dict[str, str]
    ) -> WSUpgradeResponseWithListener:
        headers["Set-Cookie"] = sticky_cookie(self._context.site, self._context.wall_time())
        return WSUpgradeResponseWithListener(
            WSUpgradeResponse.create_101_response(headers), WebSocketTransport(connection)
        )

    def _check_credential(self, tenant: str, may: Collection[Right], handshake: _Handshake) -> None:
        """Check that a verified credential may open the WebSocket from this page."""
        request, client, route, _ = handshake
        self._context.access.check_origin(
            tenant, request.headers.get("Origin"), _host(request, client)
        )
        if route.terms.right is not None:
            check_right(route.terms.right, may)

    def _check_origin(self, handshake: _Handshake) -> None:
        """Check the page that opens the WebSocket, if origins are set. Browsers do not check it.

        At a path that needs no key it is always checked.
        """
        context, (request, client, route, _) = self._context, handshake
        origin = request.headers.get("Origin")
        always = route.terms.credential is Credential.SENDER
        if (
            origin is None
            or not (always or context.site.allowed_origins.are_named)
            or context.site.allowed_origins.admits(origin)
        ):
            return
        if not context.site.is_own_page(origin, _host(request, client)):
            raise OriginNotAllowed(
                f"pages of {origin[:100]} may not connect; EVENFLOW_ALLOWED_ORIGINS names those "
                "that may",
                code="origin_not_allowed",
            )

    def _error_response(self, error: EvenflowError) -> WSUpgradeResponse:
        log_event(RejectionRecord.of(error, OVER_WEBSOCKET, "handshake"))
        self._figures.count_handshake(error.status)
        headers = {"Content-Type": "application/json", **error_headers(error)}
        if isinstance(error, Overloaded):
            # This node is full or leaving: the cookie must not bring the next try here.
            headers["Set-Cookie"] = released_cookie(self._context.site)
        body = orjson.dumps(error.to_body())
        response: WSUpgradeResponse = WSUpgradeResponse.create_error_response(
            error.status, body, headers
        )
        return response


def _host(request: WSUpgradeRequest, client: Client) -> str:
    """The host that the client called: a trusted proxy's header, else `Host`. It may be empty."""
    host: str = client.url.host or request.headers.get("Host", "")
    return host


def _token(request: WSUpgradeRequest, offered: list[str]) -> str | None:
    for name in offered:
        if name.startswith(_BEARER):
            return name.removeprefix(_BEARER)
    return bearer(request.headers.get("Authorization"))


def _select(offered: list[str], dialects: tuple[Dialect, ...]) -> tuple[Dialect, dict[str, str]]:
    """The first offered subprotocol that the path has. Without an offer, the path's first."""
    by_name = {dialect.name: dialect for dialect in dialects}
    for name in offered:
        if name in by_name:
            return by_name[name], {"Sec-WebSocket-Protocol": name}
    if offered:
        raise InvalidRequest(
            f"none of the offered subprotocols is spoken here; offer one of {', '.join(by_name)}",
            code="unsupported_subprotocol",
        )
    return dialects[0], {}
