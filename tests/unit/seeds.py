"""How many seeds of a search are tried."""

from __future__ import annotations

from hypothesis import settings

_EXAMPLES = 30


def seeds(number: int) -> range:
    """So many in `make test`, and in `make unit` fewer: as many as its profile has of examples."""
    return range(max(2, number * min(settings().max_examples, _EXAMPLES) // _EXAMPLES))
