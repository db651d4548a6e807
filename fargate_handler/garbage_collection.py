"""When Python looks for reference cycles.

By default it walks every object now and then, which stops a node of ten thousand connections for a third of a second.
Nothing here makes cycles on purpose; the few that errors make can wait until the node is quiet.
"""

from __future__ import annotations

import gc

_YOUNG_OBJECTS = 20_000  # looked through in about two milliseconds
_NEVER = 1_000_000_000
_QUIET_CONNECTIONS = 200
_EVERY_SECONDS = 60.0


class GarbageCollection:
    """Young objects as they come, all objects when the node is quiet."""

    def __init__(self, now: float) -> None:
        self._collected_at = now

    def start(self) -> None:
        """What is loaded stays: it is never looked at again. Older objects are left to `when_quiet`."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, _NEVER, _NEVER)

    def when_quiet(self, now: float, connections: int, busy: bool) -> None:
        """Look through all objects, if few are there to be kept waiting; at most once a minute."""
        if busy or connections > _QUIET_CONNECTIONS or now - self._collected_at < _EVERY_SECONDS:
            return
        self._collected_at = now
        gc.collect()
