"""Reads the remaining quota, and the time to retry, from headers such as `x-ratelimit-…`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

from evenflow.fargate_handler.token_sources.error_objects import seconds_of

_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|h|m|s))+")
# No server is believed that says more: clients would wait for a wrong header.
_LONGEST_SECONDS = 60.0
# Headers with the remaining quota and its reset: of OpenAI, Anthropic and many gateways.
_RESETS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
)
# From here on a number is a Unix time, in seconds or in milliseconds; below, a duration.
_FIRST_MOMENT, _FIRST_MOMENT_MS = 1e9, 1e12
_DATES: tuple[Callable[[str], datetime], ...] = (parsedate_to_datetime, datetime.fromisoformat)


def quota_used_for(headers: Mapping[str, str]) -> float:
    """For how many seconds no quota is left. 0 where there is some, or nothing is said."""
    return max(_used_for(headers, kind) for kind in ("requests", "tokens"))


def _used_for(headers: Mapping[str, str], kind: str) -> float:
    if headers.get(f"x-ratelimit-remaining-{kind}") != "0":
        return 0.0
    duration = headers.get(f"x-ratelimit-reset-{kind}", "")
    seconds = seconds_of(duration) if _DURATION.fullmatch(duration) else None
    return min(_LONGEST_SECONDS, seconds or 0.0)


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Seconds until a server that rejected a call accepts one. None: its headers don't say.

    Servers send milliseconds, seconds or a date. Some send only the time when their quota resets.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    after = headers.get("retry-after")
    if (seconds := _number(after)) is not None:
        return seconds
    if after is not None and (seconds := _until_date(after)):  # one in the past says nothing
        return seconds
    resets = [
        seconds
        for remaining, reset in _RESETS
        if headers.get(remaining, "0") == "0"
        and (seconds := _until_reset(headers.get(reset))) is not None
    ]
    return min(_LONGEST_SECONDS, max(resets)) if resets else None


def _until_reset(text: str | None) -> float | None:
    """Seconds until a reset, which is a duration, a number of seconds, or a time."""
    if not text:
        return None
    if _DURATION.fullmatch(text):
        return seconds_of(text)
    number = _number(text)
    if number is None:
        return _until_date(text)
    if number < _FIRST_MOMENT:
        return number
    moment = number / 1000 if number >= _FIRST_MOMENT_MS else number
    return max(0.0, moment - datetime.now(UTC).timestamp())


def _until_date(text: str) -> float | None:
    """Seconds until a date of HTTP or ISO 8601. None: it is no date."""
    for read in _DATES:
        try:
            return max(0.0, (read(text) - datetime.now(UTC)).total_seconds())
        except (TypeError, ValueError):
            continue
    return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if value >= 0 and isfinite(value) else None
