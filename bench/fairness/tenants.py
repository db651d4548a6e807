"""The tenants of the measurement: their keys, and their records."""

from evenflow.stream_core.tenants.tenant import Tenant

QUIET, GREEDY = "quiet", "greedy"
LONG = "long"  # asks for long answers
EQUAL = ("short-1", "short-2", "short-3", LONG)
WEIGHTS = {"one": 1.0, "two": 2.0, "four": 4.0}
ALL = (QUIET, GREEDY, *EQUAL, *WEIGHTS)
RECORDS = tuple(Tenant(id=name, weight=weight) for name, weight in WEIGHTS.items())


def key_of(tenant: str) -> str:
    return f"bench-fairness-{tenant}"
