"""How a source that reads a connection stands still: what isn't read holds the model's server back."""

from __future__ import annotations

import asyncio

from fargate_handler.token_sources.port import TokenSink

_LOOK_SECONDS = 0.05


async def while_held(sink: TokenSink) -> None:
    """Return when the sink takes tokens."""
    while sink.held:  # noqa: ASYNC110 - a pause is rare and long
        await asyncio.sleep(_LOOK_SECONDS)
