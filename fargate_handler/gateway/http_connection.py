"""A connection of HTTP: aiohttp's protocol, with our errors and a count of what it has not sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web

from fargate_handler.gateway.connection_registry import ConnectionRegistry
from fargate_handler.gateway.http_answers import error_answer
from stream_core.protocol.errors import InvalidRequest


class HttpConnection(web.RequestHandler):
    """aiohttp's protocol. What it can't read, it refuses in Evenflow's shape.

    Args:
        registry: knows it while its socket takes no more.

    Attributes:
        end_stream: ends the event stream that is its answer now, and says why. None: it is another
            answer.
    """

    __slots__ = ("_registry", "end_stream")

    def __init__(self, server: web.Server, registry: ConnectionRegistry) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), access_log=None)  # type: ignore[arg-type]
        self._registry = registry
        self.end_stream: Callable[[], None] | None = None

    def pause_writing(self) -> None:
        """The kernel takes no more."""
        super().pause_writing()
        self._registry.blocked.add(self)

    def resume_writing(self) -> None:
        """The kernel takes more again."""
        super().resume_writing()
        self._registry.blocked.discard(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The socket is gone."""
        super().connection_lost(exc)
        self._registry.blocked.discard(self)

    @property
    def unsent_bytes(self) -> int:
        """What the kernel has not taken."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def let_go(self) -> None:
        """End the answer, since the node has no memory for what the client doesn't take."""
        if self.end_stream is not None:
            self.end_stream()
        elif self.transport is not None:
            self.transport.abort()

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
            what = (message or "").partition("\n")[0].rstrip(": ")
            answer = error_answer(
                InvalidRequest(f"this request can't be read: {what}", code="bad_request")
            )
            answer.force_close()
        return answer
