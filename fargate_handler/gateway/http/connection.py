"""One HTTP connection: aiohttp's protocol, with the times that its client has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import cast

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.http_exceptions import LineTooLong

from evenflow.fargate_handler.gateway.connections.accepted_connections import Cut
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.connections.deadline import ClientTimer, ClockTimer
from evenflow.fargate_handler.gateway.http.error_shapes import answer_in_shape, error_answer_at
from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.stream_core.base.errors import EvenflowError, HeadTooLarge, InvalidRequest
from evenflow.stream_core.bounds.memory_bound import READ_AHEAD_BYTES
from evenflow.stream_core.protocols.evenflow.socket_session import CLOSE_SECONDS
from evenflow.stream_core.records.connection_records import RejectionRecord

_LONGEST_HEADER = 16_384
"""Bytes of a header's value. AWS load balancers accept lines of the same length. A token of an
identity provider that names 200 groups has 11,000.
"""

# The header of a proxy that is not configured counts, too: a forged one only gives more idle time.
_SAYS_PROXY = re.compile(rb"\n(?:x-forwarded-for|forwarded|via):", re.IGNORECASE)
# Bytes of a head that are enough to see which API is called.
_BEGINNING_BYTES = 64
_LINGER_SECONDS = 1.0


class HttpConnection(web.RequestHandler):
    """aiohttp's protocol, between the node's connections and aiohttp's server.

    What it can't read, it refuses in Evenflow's shape.

    Attributes:
        end_stream: ends the event stream that is its answer now, and says why. None: it is another
            answer.

    Args:
        first: the first bytes that came.
        head_timer: runs until the first head is whole.
    """

    __slots__ = (
        "_accepted",
        "_beginning",
        "_clock",
        "_half_closed",
        "_head_seconds",
        "_head_timer",
        "_last_body",
        "_on_half_close",
        "_registry",
        "_socket",
        "_unsent",
        "end_stream",
    )

    def __init__(
        self,
        server: web.Server,
        context: GatewayContext,
        transport: asyncio.Transport,
        first: bytes,
        head_timer: ClientTimer,
    ) -> None:
        loop, limits = asyncio.get_running_loop(), context.limits
        peer = transport.get_extra_info("peername") or ("",)
        is_trusted = context.site.trusted_proxies.trusts(peer[0])
        is_proxy = is_trusted or _SAYS_PROXY.search(first) is not None
        keep_alive = limits.proxy_keep_alive_seconds if is_proxy else limits.keep_alive_seconds
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,
            keepalive_timeout=keep_alive,
            read_bufsize=READ_AHEAD_BYTES // 2,  # aiohttp reads on up to twice as much
            max_field_size=_LONGEST_HEADER,
        )
        self._accepted = context.accepted
        self._beginning = first[:_BEGINNING_BYTES]
        self._registry = context.registry
        self.end_stream: Callable[[], None] | None = None
        self._half_closed = False
        self._unsent = 0  # at the last look
        self._on_half_close: Callable[[], None] | None = None
        self._last_body: StreamReader | None = None
        self._clock = context.clock
        self._head_seconds = limits.head_seconds
        self._socket: asyncio.Transport | None = transport
        self._head_timer: ClientTimer | None = head_timer
        head_timer.redirect(self._head_is_late)

    def release(self) -> asyncio.Transport:
        """Detach the transport, which has another owner from now on. It must be open."""
        released, self._socket, self.transport = self._socket, None, None
        return cast("asyncio.Transport", released)

    # -- called by the loop ------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._awaits_head:
            self._beginning = data[:_BEGINNING_BYTES]
        super().data_received(data)
        if self._awaits_head and not data.isspace():
            self._head_timer = ClientTimer(self._loop, self._head_seconds, self._head_is_late)
        if self._messages:
            _, self._last_body = self._messages[-1]

    @property
    def _awaits_head(self) -> bool:
        """Whether no byte of a head has been received since the last request was answered."""
        return self._head_timer is None and not (self._messages or self._request_in_progress)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Handle a half-close: the client waits for its answers, or is gone.

        Only a write shows which: a client that is gone then resets the connection.

        Returns:
            Whether the connection stays open. Otherwise the loop closes it when all is sent.
        """
        transport = self._socket
        if transport is None:
            return False
        if not self._awaits_answers:
            self._end(transport)
            return False
        self._half_closed = True
        self._close_after_last()
        self._unsent = 0
        self._look_at_unsent()
        if self._on_half_close is not None:
            self._on_half_close()
        return True

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is gone."""
        self._stop_head_timer()
        if self._socket is not None:
            self._accepted.remove(self._socket)
            self._socket = None
        super().connection_lost(exc)
        self._registry.blocked.discard(self)

    def pause_writing(self) -> None:
        """The kernel takes no more."""
        super().pause_writing()
        self._registry.blocked.add(self)

    def resume_writing(self) -> None:
        """The kernel takes more again."""
        super().resume_writing()
        self._registry.blocked.discard(self)
        self._unsent = 0

    # -- half-closed connections -------------------------------------------------------------------

    def when_half_closed(self, call: Callable[[], None]) -> None:
        """Register a callback of the current request for when its client half-closes."""
        self._on_half_close = call
        if self._half_closed:
            call()

    @property
    def _awaits_answers(self) -> bool:
        """Whether all requests were received completely, and at least one is not answered."""
        waiter = self._waiter
        if not self._messages and (waiter is not None and not waiter.done()):
            return False
        return self._last_body is not None and self._last_body.is_eof()

    def _close_after_last(self) -> None:
        """Close a half-closed connection with the answer to its last request."""
        if self._half_closed and not self._messages:
            self.close()

    def _look_at_unsent(self) -> None:
        """Disconnect the client if it has read nothing since the last look."""
        if self.transport is None or not (unsent := self.unsent_bytes):
            return
        if 0 < self._unsent <= unsent:
            self.transport.abort()
            return
        self._unsent = unsent
        self._clock.put_after(ClockTimer(self._look_at_unsent), CLOSE_SECONDS)

    def _end(self, transport: asyncio.Transport) -> None:
        if transport.get_write_buffer_size():
            # A client that doesn't read would keep the buffer and its reader forever.
            if self._task_handler is not None:
                self._task_handler.cancel()
            self._clock.put_after(ClockTimer(transport.abort), CLOSE_SECONDS)

    # -- what the client doesn't take --------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """What the kernel has not taken."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def close_for_memory(self) -> None:
        """End the answer, since the node has no memory for what the client doesn't take."""
        if self.end_stream is not None:
            self.end_stream()
        elif self.transport is not None:
            self.transport.abort()

    # -- called by aiohttp -------------------------------------------------------------------------

    async def _handle_request(
        self,
        request: web.BaseRequest,
        start_time: float | None,
        request_handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    ) -> tuple[web.StreamResponse, bool]:
        self._stop_head_timer()
        self._close_after_last()
        if request.version < HttpVersion11 and "Transfer-Encoding" in request.headers:
            self.close()  # its framing is faulty (RFC 9112, 6.1): what follows may be its body
        if self._socket is not None:
            self._accepted.serve(self._socket)
        try:
            answer, reset = await super()._handle_request(
                request, start_time, partial(answer_in_shape, request_handler)
            )
            if answer.status == HTTPStatus.REQUEST_TIMEOUT:
                self.force_close()  # aiohttp would wait ten seconds more for the rest of the body
            if answer.status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                # Closing a socket with unread bytes resets it, which may lose the answer. So the
                # rest is read for a while, and ignored.
                self.close()
                await asyncio.sleep(_LINGER_SECONDS)
            return answer, reset
        finally:
            self._on_half_close = None
            if self._socket is not None:
                self._accepted.wait_for_request(self._socket)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no request of HTTP. The connection ends with it."""
        answer = super().handle_error(request, status, exc, message)
        if status == HTTPStatus.BAD_REQUEST:
            error = _fault_of(exc, message or "")
            _, _, target = self._beginning.partition(b" ")
            path = target.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
            log_event(
                RejectionRecord(code=error.code, status=error.status, transport="http", what="head")
            )
            answer = error_answer_at(path, error)
            answer.force_close()
        return answer

    # -- the first and later heads -----------------------------------------------------------------

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._socket is not None:
            self._accepted.cut(self._socket, Cut.HEAD)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.stop()
            self._head_timer = None


def when_half_closed(request: web.BaseRequest, call: Callable[[], None]) -> None:
    """Call `call` when the client of a request half-closes, or at once if it already has."""
    cast("HttpConnection", request.protocol).when_half_closed(call)


def _fault_of(exc: BaseException | None, message: str) -> EvenflowError:
    """The error for a request that aiohttp can't parse."""
    if isinstance(exc, LineTooLong) and exc.args[1] == _LONGEST_HEADER:
        return HeadTooLarge(
            f"a header of this request is longer than {_LONGEST_HEADER} bytes; nothing was "
            "accepted. Send fewer cookies, or a shorter token",
            code="head_too_large",
        )
    what = message.partition("\n")[0].rstrip(": ")
    return InvalidRequest(
        f"this request can't be read: {what}; nothing was accepted, correct the request",
        code="bad_request",
    )
