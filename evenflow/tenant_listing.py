"""Tenants' records for people, and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from evenflow.stream_core.tenants.tenant import EVERY_SCOPE, ApiKey, QuotaLimits, Tenant

_HEADING = ("tenant", "weight", "class", "keys", "bounds and the rest")
_GAP = "  "


def as_table(records: Sequence[Tenant], now: float) -> str:
    """A table, with one line a tenant.

    Args:
        now: seconds since the epoch.
    """
    return in_columns([_HEADING, *(_row(record, now) for record in records)])


def in_columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of a table, whose columns are as wide as they need."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        _GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def as_json(records: Sequence[Tenant]) -> str:
    """All records as JSON, without the keys' digests."""
    without: dict[str, Any] = {"keys": {"__all__": {"digest"}}, "removed": True}
    fields = [
        record.model_dump(mode="json", exclude=without, exclude_none=True) for record in records
    ]
    return json.dumps(fields, indent=2)


def moment(seconds: float) -> str:
    """A time in UTC, to the minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _row(record: Tenant, now: float) -> tuple[str, ...]:
    return (
        record.id,
        f"{record.weight:g}",
        record.service_class,
        ", ".join(_key(key, now) for key in record.keys) or "-",
        " ".join(_rest(record)) or "-",
    )


def _key(key: ApiKey, now: float) -> str:
    about = list(_bounds(key.limits, ""))
    if key.scopes != EVERY_SCOPE:
        about.insert(0, "+".join(sorted(key.scopes)))
    if key.expires_at is not None:
        about.append(f"until {moment(key.expires_at)}" if key.is_valid(now) else "expired")
    return f"{key.id} ({', '.join(about)})" if about else key.id


def _rest(record: Tenant) -> Iterator[str]:
    yield from _bounds(record.limits, "")
    yield from _bounds(record.user_limits, "user-")
    for name in ("models", "agents", "origins"):
        if listed := getattr(record, name):
            yield f"{name}={','.join(listed)}"
    if record.filtering is not None:
        yield f"filtering={record.filtering}"
    if record.open:
        yield "open"
    if record.shadow:
        yield "shadow"


def _bounds(limits: QuotaLimits, prefix: str) -> Iterator[str]:
    bounds: dict[str, Any] = limits.model_dump(exclude_none=True)
    for name, bound in bounds.items():
        shown = f"{bound:g}" if isinstance(bound, float) else str(bound)
        yield f"{prefix}{name.replace('_', '-')}={shown}"
