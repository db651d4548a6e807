"""All attacks, by their names."""

from __future__ import annotations

from tests.attack import connections, ends, memory, origins, requests, shares, upstream
from tests.attack.attack import Attack

ATTACKS = {
    value.name: value
    for area in (memory, connections, requests, shares, ends, upstream, origins)
    for value in vars(area).values()
    if isinstance(value, Attack)
}
"""In the order of their areas' files."""
