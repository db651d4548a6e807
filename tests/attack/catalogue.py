"""All attacks, by their names."""

from __future__ import annotations

from tests.attack import (
    closed,
    connections,
    ends,
    filtered,
    memory,
    money,
    origins,
    parsing,
    requests,
    shares,
    stores,
    upstream,
)
from tests.attack.attack import Attack

ATTACKS = {
    value.name: value
    for area in (
        memory,
        parsing,
        stores,
        connections,
        requests,
        shares,
        ends,
        upstream,
        origins,
        closed,
        filtered,
        money,
    )
    for value in vars(area).values()
    if isinstance(value, Attack)
}
"""In the order of their areas' files."""
