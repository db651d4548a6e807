"""Limits as the environment variables that handlers and functions read."""

from __future__ import annotations

from stream_core.limits import Limits


def limit_variables(limits: Limits, *always: str) -> dict[str, str]:
    """The variables of the limits that differ from the default, and of those named."""
    changed = limits.model_dump(exclude_defaults=True)
    chosen = {**changed, **{name: getattr(limits, name) for name in always}}
    return {
        f"EVENFLOW_{name.upper()}": f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in chosen.items()
    }
