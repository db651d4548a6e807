"""WebSockets: picows has a connection from the head of its handshake on."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from urllib.parse import parse_qs

import orjson
from picows import (
    WSAutoPingStrategy,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
)

from evenflow.fargate_handler.event_log import log_event
from evenflow.fargate_handler.gateway.access_grant import AccessGrant
from evenflow.fargate_handler.gateway.client_admission import admit_client
from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.fargate_handler.gateway.cookies import released_cookie, sticky_cookie
from evenflow.fargate_handler.gateway.handshake import check_handshake, head_fault
from evenflow.fargate_handler.gateway.openai.not_served import RealtimeRefusal
from evenflow.fargate_handler.gateway.openai.responses.responses_socket import ResponsesSocket
from evenflow.fargate_handler.gateway.operator_endpoints import is_metrics_port
from evenflow.fargate_handler.gateway.parser_log import ParserLog
from evenflow.fargate_handler.gateway.request_body import node_full
from evenflow.fargate_handler.gateway.requests.submission import sender_with
from evenflow.fargate_handler.gateway.websocket_connection import WEBSOCKET as OVER_WEBSOCKET
from evenflow.fargate_handler.gateway.websocket_connection import WebSocketConnection
from evenflow.fargate_handler.gateway.websocket_protocol import WebSocketProtocol
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.policy.client_address import Client
from evenflow.stream_core.policy.rights import Right, check_right
from evenflow.stream_core.policy.trace_context import TRACEPARENT, known_traceparent
from evenflow.stream_core.protocol import openai_realtime
from evenflow.stream_core.protocol.dialect import CompactDialect, Dialect, subprotocols
from evenflow.stream_core.protocol.errors import (
    EvenflowError,
    HostNotAllowed,
    InternalError,
    InvalidRequest,
    NotFound,
    OriginNotAllowed,
    Overloaded,
)
from evenflow.stream_core.protocol.http_contract import error_headers
from evenflow.stream_core.protocol.realtime import RealtimeDialect
from evenflow.stream_core.protocol.routes import (
    OPENAI_REALTIME,
    REALTIME,
    RESPONSES_WEBSOCKET,
    WEBSOCKET,
)
from evenflow.stream_core.protocol.session_init import bearer
from evenflow.stream_core.records.connection_records import RefusalRecord

# By path. A client that offers no subprotocol gets the first one.
_DIALECTS: dict[str, tuple[Dialect, ...]] = {
    WEBSOCKET.path: (Dialect(), CompactDialect()),
    REALTIME.path: (RealtimeDialect(),),
    OPENAI_REALTIME.path: (RealtimeDialect(),),
}
_BEARER = "bearer."
# Larger frames are refused by the session with a reason. Far larger ones never enter memory.
_FRAME_SLACK = 2

_logger = logging.getLogger(__name__)


class WebSocketEndpoint:
    """Takes connections that ask for a WebSocket. Refusals have Evenflow's shape of errors."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._parser_log = ParserLog(context.metrics.counter(catalogue.PARSER_ERRORS))

    def take(self, transport: asyncio.Transport, received: bytes) -> bytes | None:
        """Give a connection to picows, unless the head of the handshake is faulty.

        Returns:
            The answer that refuses it, or None.

        Args:
            received: the whole head, and what came behind it.
        """
        accepted = self._context.accepted
        fault: EvenflowError | None = head_fault(received.partition(b"\r\n\r\n")[0])
        if fault is None and is_metrics_port(transport, self._context):
            fault = NotFound("there are no WebSockets at this port", code="path_not_found")
        if fault is None and not accepted.serve(transport) and accepted.refuses(transport):
            fault = node_full()
        if fault is not None:
            response = self._error_response(fault)
            response.headers["Connection"] = "close"
            return bytes(response.to_bytes())
        peer = transport.get_extra_info("peername")
        if peer is None:
            transport.abort()  # it was reset meanwhile, and can't be told from others any more
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

    def _most_frame_bytes(self, head: bytes) -> int:
        """The largest frame at the path in a head. Requests come as one at that of Responses."""
        limits = self._context.limits
        path = head.partition(b"?")[0].split(b" ")[1:2]
        is_of_responses = path == [RESPONSES_WEBSOCKET.path.encode()]
        most = limits.request_bytes if is_of_responses else limits.message_bytes
        return most * _FRAME_SLACK

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
            return self._accept(peer, request, asked_at)
        except EvenflowError as error:
            if isinstance(error, HostNotAllowed | OriginNotAllowed):
                self._context.metrics.labelled(catalogue.HTTP_REFUSED).count(error.code)
            return WSUpgradeResponseWithListener(self._error_response(error), None)
        except Exception:
            _logger.exception("a handshake failed")
            failed = InternalError("the handshake failed; try again", code="internal_error")
            return WSUpgradeResponseWithListener(self._error_response(failed), None)

    def _accept(
        self, peer: str, request: WSUpgradeRequest, asked_at: float
    ) -> WSUpgradeResponseWithListener:
        context = self._context
        context.allowed_hosts.check(request.headers.get("Host"))
        path, _, query = request.path.decode("latin-1").partition("?")
        caller = context.client(peer, request.headers)
        if path == RESPONSES_WEBSOCKET.path:
            return self._accept_responses(request, caller)
        dialects = _dialects(path)
        check_handshake(request)
        asked = parse_qs(query)
        offered = subprotocols(request.headers.getall("Sec-WebSocket-Protocol", ()))
        beta = request.headers.get(openai_realtime.BETA_HEADER)
        if path == OPENAI_REALTIME.path and openai_realtime.asks_for_openai_realtime(
            offered, asked, beta
        ):
            return _realtime_refusal(offered)
        self._check_origin(request, caller)
        claims = context.tokens.verify_any(_token(request, offered), context.wall_time())
        context.check_grant(AccessGrant.of(claims))
        self._check_tenant_origin(claims.channel.tenant, request, caller)
        check_right(Right.READ, claims.may)
        dialect, answer_headers = _select(offered, dialects)
        replaces = asked.get("replace") == ["1"]
        if replaces:
            check_right(Right.WRITE, claims.may)
        client = admit_client(
            context,
            claims,
            dialect,
            address=caller.address,
            replaces=replaces,
            asked_at=asked_at,
        )
        answer_headers["Set-Cookie"] = sticky_cookie(context)
        return WSUpgradeResponseWithListener(
            WSUpgradeResponse.create_101_response(answer_headers), WebSocketConnection(client)
        )

    def _accept_responses(
        self, request: WSUpgradeRequest, caller: Client
    ) -> WSUpgradeResponseWithListener:
        """Accept a client of OpenAI's Responses API. It may need no key, so its page is known."""
        context = self._context
        check_handshake(request)
        self._check_origin(request, caller, always=True)
        given = bearer(request.headers.get("Authorization"))
        if context.identities is not None:
            # A handshake can't wait for keys: it is told to come again.
            context.identities.look_at(given)
        sender = sender_with(given, caller.address, context)
        self._check_tenant_origin(sender.tenant, request, caller)
        sender = sender._replace(traceparent=known_traceparent(request.headers.get(TRACEPARENT)))
        if context.orchestrator.draining:
            raise Overloaded(
                "this node is leaving; connect again", code="draining", retry_after_ms=1000
            )
        client = ResponsesSocket(context, sender)
        context.registry.check(None, client.sender, replaces=False)
        context.quotas.check_connection(client.payer)
        answer_headers = {"Set-Cookie": sticky_cookie(context)}
        return WSUpgradeResponseWithListener(
            WSUpgradeResponse.create_101_response(answer_headers), WebSocketConnection(client)
        )

    def _check_origin(
        self, request: WSUpgradeRequest, caller: Client, *, always: bool = False
    ) -> None:
        """Check the page that opens the WebSocket, if origins are set. Browsers don't.

        Args:
            always: whether it is also checked where none are set.
        """
        context, origin = self._context, request.headers.get("Origin")
        if (
            origin is None
            or not (always or context.allowed_origins.are_named)
            or context.allowed_origins.admits(origin)
        ):
            return
        if not context.is_own_page(origin, _host(request, caller)):
            raise OriginNotAllowed(
                f"pages of {origin[:100]} may not connect; EVENFLOW_ALLOWED_ORIGINS names those "
                "that may",
                code="origin_not_allowed",
            )

    def _check_tenant_origin(
        self, tenant_id: str, request: WSUpgradeRequest, caller: Client
    ) -> None:
        origin = request.headers.get("Origin")
        self._context.check_origin(tenant_id, origin, _host(request, caller))

    def _error_response(self, error: EvenflowError) -> WSUpgradeResponse:
        log_event(RefusalRecord.of(error, OVER_WEBSOCKET, "handshake"))
        headers = {"Content-Type": "application/json", **error_headers(error)}
        if isinstance(error, Overloaded):
            # This node is full or leaving: the cookie must not bring the next try here.
            headers["Set-Cookie"] = released_cookie(self._context)
        body = orjson.dumps(error.to_body())
        response: WSUpgradeResponse = WSUpgradeResponse.create_error_response(
            error.status, body, headers
        )
        return response


def _host(request: WSUpgradeRequest, caller: Client) -> str:
    """The host that the client called, as far as it is known."""
    host: str = caller.url.host or request.headers.get("Host", "")
    return host


def _dialects(path: str) -> tuple[Dialect, ...]:
    dialects = _DIALECTS.get(path)
    if dialects is None:
        raise NotFound(
            f"there is no such path here; WebSockets are at {', '.join(_DIALECTS)}",
            code="path_not_found",
        )
    return dialects


def _realtime_refusal(offered: list[str]) -> WSUpgradeResponseWithListener:
    name = openai_realtime.SUBPROTOCOL
    headers = {"Sec-WebSocket-Protocol": name} if name in offered else {}
    return WSUpgradeResponseWithListener(
        WSUpgradeResponse.create_101_response(headers), RealtimeRefusal()
    )


def _token(request: WSUpgradeRequest, offered: list[str]) -> str | None:
    for name in offered:
        if name.startswith(_BEARER):
            return name.removeprefix(_BEARER)
    return bearer(request.headers.get("Authorization"))


def _select(offered: list[str], dialects: tuple[Dialect, ...]) -> tuple[Dialect, dict[str, str]]:
    """The client's first subprotocol that this path has. Without any offer, the path's first."""
    spoken = {dialect.name: dialect for dialect in dialects}
    for name in offered:
        if name in spoken:
            return spoken[name], {"Sec-WebSocket-Protocol": name}
    if offered:
        raise InvalidRequest(
            f"none of the offered subprotocols is spoken here; offer one of {', '.join(spoken)}",
            code="unsupported_subprotocol",
        )
    return dialects[0], {}
