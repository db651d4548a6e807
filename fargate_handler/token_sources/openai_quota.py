"""What OpenAI's headers say of the quota that is left: `x-ratelimit-…`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_UNITS = {"h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|h|m|s))+")
_PIECE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)")
# No server is believed that says more: clients would wait for a wrong header.
_LONGEST_SECONDS = 60.0


def quota_used_for(headers: Mapping[str, str]) -> float:
    """For how many seconds no quota is left. 0 where there is some, or nothing is said."""
    return max(_used_for(headers, kind) for kind in ("requests", "tokens"))


def _used_for(headers: Mapping[str, str], kind: str) -> float:
    if headers.get(f"x-ratelimit-remaining-{kind}") != "0":
        return 0.0
    return min(_LONGEST_SECONDS, _seconds(headers.get(f"x-ratelimit-reset-{kind}", "")))


def _seconds(duration: str) -> float:
    """`6m0s`, `1.5s` or `20ms` in seconds. 0 for anything else."""
    if not _DURATION.fullmatch(duration):
        return 0.0
    return sum(float(number) * _UNITS[unit] for number, unit in _PIECE.findall(duration))
