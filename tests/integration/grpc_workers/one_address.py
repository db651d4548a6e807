"""A proxy as Service Connect's: one address, behind which each call goes to the next of several
workers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc

_Context = grpc.aio.ServicerContext[bytes, bytes]


class OneAddress(grpc.GenericRpcHandler):
    """Forwards bytes, cancels, deadlines and statuses.

    Args:
        workers: their addresses.
    """

    def __init__(self, workers: Sequence[str]) -> None:
        self._channels = [
            grpc.aio.insecure_channel(worker, [("grpc.enable_http_proxy", 0)]) for worker in workers
        ]
        self._next = 0
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    async def start(self) -> None:
        """Listen."""
        await self._server.start()

    async def stop(self) -> None:
        """Leave at once."""
        await self._server.stop(0)
        for channel in self._channels:
            await channel.close()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """See `grpc.GenericRpcHandler`."""
        return grpc.unary_stream_rpc_method_handler(self._forwarding(handler_call_details.method))

    def _forwarding(self, method: str) -> Callable[[bytes, _Context], AsyncIterator[bytes]]:
        channel = self._channels[self._next % len(self._channels)]
        self._next += 1

        async def forward(request: bytes, context: _Context) -> AsyncIterator[bytes]:
            ask: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(method)
            call = ask(request, timeout=context.time_remaining())
            try:
                async for message in call:
                    yield message
            except grpc.aio.AioRpcError as error:
                await context.abort(
                    error.code(), error.details() or "", tuple(error.trailing_metadata() or ())
                )
            finally:
                call.cancel()

        return forward
