"""Ending a model's connection so that the model notices."""

from __future__ import annotations

import aiohttp


def abort_connection(answer: aiohttp.ClientResponse) -> None:
    """Reset the connection that `answer` comes over, if it still has one.

    A polite close over TLS waits for the other side, which does nothing but write: a model went on for seconds. It
    notices a reset at once.
    """
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
