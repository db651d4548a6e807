"""What holds for the tests of every folder."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Look for reference cycles among what the tests make, not among all that was loaded: handlers whose clock is turned
    by hand look every minute of it, and would take a third of a second each time."""
    gc.collect()
    gc.freeze()
