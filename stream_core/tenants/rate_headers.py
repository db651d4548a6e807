"""The headers with a caller's rate limits, as in OpenAI's and Anthropic's APIs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from evenflow.stream_core.tenants.quotas import BoundState

_REQUESTS = ("requests_per_minute",)
_INPUT = ("input_tokens_per_minute",)
_OUTPUT = ("output_tokens_per_minute",)
_TOKENS = ("tokens_per_minute", *_INPUT, *_OUTPUT)


def openai_rate_headers(states: Sequence[BoundState]) -> dict[str, str]:
    """`x-ratelimit-…`, of the bounds of requests and of tokens with the least left."""
    headers = dict[str, str]()
    for name, bounds in (("requests", _REQUESTS), ("tokens", _TOKENS)):
        state = _tightest(states, bounds)
        if state is not None:
            headers[f"x-ratelimit-limit-{name}"] = str(state.most)
            headers[f"x-ratelimit-remaining-{name}"] = str(state.remaining)
            headers[f"x-ratelimit-reset-{name}"] = duration(state.resets_in)
    return headers


def anthropic_rate_headers(states: Sequence[BoundState], wall_time: float) -> dict[str, str]:
    """`anthropic-ratelimit-…`, likewise.

    Args:
        wall_time: now, in seconds since the epoch.
    """
    headers = dict[str, str]()
    kinds = {
        "requests": _REQUESTS,
        "tokens": _TOKENS,
        "input-tokens": _INPUT,
        "output-tokens": _OUTPUT,
    }
    for name, bounds in kinds.items():
        state = _tightest(states, bounds)
        if state is not None:
            prefix = f"anthropic-ratelimit-{name}"
            headers[f"{prefix}-limit"] = str(state.most)
            headers[f"{prefix}-remaining"] = str(state.remaining)
            headers[f"{prefix}-reset"] = _moment(wall_time + state.resets_in)
    return headers


def duration(seconds: float) -> str:
    """A time as OpenAI writes it, in milliseconds rounded up: `20ms`, `1.5s`, `6m0s`, `1h0m0s`."""
    milliseconds = math.ceil(round(seconds * 1000, 3))
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    text = f"{rest / 1000:g}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{minutes}m{text}"
        if hours:
            text = f"{hours}h{text}"
    return text


def _tightest(states: Iterable[BoundState], bounds: Sequence[str]) -> BoundState | None:
    """Of these bounds, the one with the least left. None: none of them is set."""
    matching = (state for state in states if state.bound in bounds)
    return min(matching, key=lambda state: (state.remaining, -state.resets_in), default=None)


def _moment(wall_time: float) -> str:
    """A time in RFC 3339, in whole seconds rounded up."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=math.ceil(wall_time))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
