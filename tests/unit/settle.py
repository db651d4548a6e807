"""Turns of the event loop, without time passing."""

from __future__ import annotations

import asyncio


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)
