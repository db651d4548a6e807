"""Periodic work of a node, at random times."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.runtime.background import Background


class Sweep:
    """Runs its work periodically, at random intervals, never twice at once.

    Args:
        work: the work to run.
        every: the least and the most seconds between two starts.
        look: the seconds between two checks of the time. An overloaded wheel turns slower than
            time passes.
    """

    def __init__(
        self,
        context: NodeContext,
        work: Callable[[], Awaitable[None]],
        *,
        every: tuple[float, float],
        look: float,
    ) -> None:
        self._work = work
        self._every = every
        self._look = look
        self._clock = context.clock
        self._monotonic = context.monotonic
        self._next_at = 0.0
        self._working = False
        self._background = Background()

    def start(self) -> None:
        """Start the periodic work."""
        self._next_at = self._monotonic() + random.uniform(*self._every)
        self._clock.put_after(self, self._look)

    def hasten(self, seconds: float) -> None:
        """Start the work in at most `seconds`."""
        self._next_at = min(self._next_at, self._monotonic() + seconds)

    def on_due(self, _slot: int) -> None:
        """Start the work if it is time."""
        self._clock.put_after(self, self._look)
        if self._monotonic() >= self._next_at and not self._working:
            self._next_at = self._monotonic() + random.uniform(*self._every)
            self._background.run(self._do())

    async def aclose(self) -> None:
        """Stop the periodic work."""
        await self._background.aclose()

    async def _do(self) -> None:
        self._working = True
        try:
            await self._work()
        finally:
            self._working = False
