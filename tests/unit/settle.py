"""Turns of the event loop, without time passing."""

from __future__ import annotations

import asyncio
from typing import Any

_TURNS = 20
# What is due by a timer or has come from a socket is ready one turn later.
_IDLE_TURNS = 3


async def settle() -> None:
    """Let every task go as far as it can: until nothing is ready, at most 20 turns."""
    loop: Any = asyncio.get_running_loop()
    idle = 0
    for _ in range(_TURNS):
        await asyncio.sleep(0)
        # uvloop does not show what is ready.
        idle = 0 if getattr(loop, "_ready", True) else idle + 1
        if idle == _IDLE_TURNS:
            return
