"""This task's lease: under which name it owns what it answers, and until when that is safe."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fargate_handler.background import Background
from stream_core.delivery_clock import DeliveryClock
from stream_core.limits import Limits
from stream_core.response_store import LeaseLost, ResponseStore, StoreUnavailable

_logger = logging.getLogger(__name__)

_RENEWALS_PER_LEASE = 3.3


class LeaseKeeper:
    """Renews the lease of this task. When it was lost, the task gets another name: nothing is its own any more.

    Args:
        name: this task's; each lease lost adds a number to it.
        address: where other tasks reach this one, `http://host:port`.
        monotonic, wall_time: seconds, the second ones since the epoch, for what other machines read.
        on_lost: called when the lease was lost, after the name has changed.
    """

    def __init__(
        self,
        *,
        store: ResponseStore,
        name: str,
        address: str | None,
        clock: DeliveryClock,
        limits: Limits,
        monotonic: Callable[[], float],
        wall_time: Callable[[], float],
        on_lost: Callable[[], None],
    ) -> None:
        self.owner = name
        """The name under which this task owns responses now."""
        self._store = store
        self._name = name
        self._names = 1
        self._address = address
        self._clock = clock
        self._seconds = limits.lease_seconds
        self._monotonic = monotonic
        self._wall_time = wall_time
        self._on_lost = on_lost
        self._in_force_until = 0.0
        self._released = False
        self._renewing = False
        self._background = Background()

    @property
    def in_force(self) -> bool:
        """Whether nobody else may take over what is this task's."""
        return not self._released and self._monotonic() < self._in_force_until

    async def start(self) -> None:
        """Take the lease, and keep it from now on.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        await self._renew()
        self._clock.put_after(self, self._seconds / _RENEWALS_PER_LEASE)

    async def release(self) -> None:
        """Leave: other tasks may take over at once what isn't finished.

        Raises:
            StoreUnavailable: the store can't be reached; the lease runs out by itself.
        """
        self._released = True
        await self._store.release(self.owner)

    async def aclose(self) -> None:
        """Renew no more; a lease that wasn't released runs out by itself."""
        self._released = True
        await self._background.aclose()

    def on_due(self, _slot: int) -> None:
        """Renew."""
        if self._released:
            return
        self._clock.put_after(self, self._seconds / _RENEWALS_PER_LEASE)
        if not self._renewing:
            self._background.run(self._keep())

    async def _keep(self) -> None:
        self._renewing = True
        try:
            await self._renew()
        except StoreUnavailable:
            _logger.warning("the lease of this task could not be renewed; what it answers may be taken over")
        except LeaseLost:
            if self._released:
                return
            _logger.warning("the lease of this task was lost: other tasks go on with what it was answering")
            self._names += 1
            self.owner = f"{self._name}-{self._names}"
            self._in_force_until = 0.0
            self._on_lost()
            await self._keep()
        finally:
            self._renewing = False

    async def _renew(self) -> None:
        # Counted from before the call, which may take long.
        begun = self._monotonic()
        await self._store.renew(self.owner, self._wall_time() + self._seconds, self._address)
        self._in_force_until = max(self._in_force_until, begun + self._seconds)
