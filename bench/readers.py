"""The transports that a scenario compares, side by side."""

from collections.abc import Sequence

from bench.client import Reader, all_ready, open_connections
from bench.evenflow import Evenflow
from bench.event_reader import CompletionReader, ResponseReader, open_readers
from bench.sessions import session_tokens

WEBSOCKET, SSE, COMPLETIONS = "WebSocket", "SSE", "/v1"
TRANSPORTS = (WEBSOCKET, SSE, COMPLETIONS)


async def opened(transport: str, server: Evenflow, count: int) -> Sequence[Reader]:
    """So many connections by one of `TRANSPORTS`, each with a session of its own.

    Raises:
        RuntimeError: a WebSocket was not greeted.
        OSError: a connection was refused.
    """
    return await opened_with(transport, server, session_tokens(count))


async def opened_with(transport: str, server: Evenflow, tokens: Sequence[str]) -> Sequence[Reader]:
    """Likewise, one for each of `tokens`."""
    if transport == WEBSOCKET:
        connections = await open_connections(server.ws_url, tokens)
        await all_ready(connections)
        return connections
    kind = ResponseReader if transport == SSE else CompletionReader
    return await open_readers(kind, server.http_url, tokens)
