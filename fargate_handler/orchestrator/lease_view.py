"""The leases of all tasks as this one sees them: read once for all who ask at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fargate_handler.background import Background
from stream_core.response_store import ResponseStore, TaskLease

# A lease seen so long ago is as good as one read now: one that was renewed since only looks shorter than it is, and who
# takes over asks the store in any case.
_FRESH_SECONDS = 0.3


class LeaseView:
    """Who is there.

    Args:
        monotonic: seconds.
    """

    def __init__(self, store: ResponseStore, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._leases: Mapping[str, TaskLease] = {}
        self._fresh_until = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._background = Background()

    async def all(self) -> Mapping[str, TaskLease]:
        """Owner → its lease.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        if self._monotonic() >= self._fresh_until:
            if self._reading is None:
                self._reading = self._background.run(self._read())
            await asyncio.shield(self._reading)
        return self._leases

    async def of(self, owner: str) -> TaskLease | None:
        """The lease of a task, if there is one.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        leases = await self.all()
        # One that is not seen may have come since.
        return leases[owner] if owner in leases else await self._store.lease(owner)

    async def aclose(self) -> None:
        """Read no more."""
        await self._background.aclose()

    async def _read(self) -> None:
        asked = self._monotonic()
        try:
            self._leases = {lease.owner: lease for lease in await self._store.leases()}
            self._fresh_until = asked + _FRESH_SECONDS
        finally:
            self._reading = None
