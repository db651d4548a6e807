"""What a scenario found, and the table that it ends up in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any

_WIDEST_RULE = 70  # what was measured may be long


@dataclass(frozen=True)
class Row:
    """One line of the table; a row without a target has no verdict."""

    requirement: str
    measured: str
    verdict: str = ""


@dataclass
class Outcome:
    """The result of one scenario.

    `faults`: gaps, duplicates, wrong or missing text, each of which fails the run.
    """

    scenario: str
    rows: list[Row] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    faults: int = 0
    failure: str | None = None  # why it could not be measured


def at_most(what: str, value: float, limit: float, unit: str, note: str = "") -> Row:
    verdict = "pass" if value <= limit else f"miss by {value - limit:,.1f} {unit}"
    return Row(f"{what} ≤ {limit:,g} {unit}", _measured(value, unit, note), verdict)


def at_least(what: str, value: float, limit: float, unit: str, note: str = "") -> Row:
    verdict = "pass" if value >= limit else f"miss by {limit - value:,.1f} {unit}"
    return Row(f"{what} ≥ {limit:,g} {unit}", _measured(value, unit, note), verdict)


def between(what: str, value: float, limits: tuple[float, float], unit: str, note: str = "") -> Row:
    low, high = limits
    missed = max(low - value, value - high)
    verdict = "pass" if missed <= 0 else f"miss by {missed:,.1f} {unit}"
    return Row(f"{what} {low:g} to {high:g} {unit}", _measured(value, unit, note), verdict)


def none_of(what: str, count: int, note: str = "") -> Row:
    return Row(f"{what}: 0", _measured(count, "", note), "pass" if count == 0 else "FAIL")


def table(rows: Sequence[Row]) -> str:
    """The rows in aligned columns under a heading."""
    cells = [
        ("requirement", "result", "measured"),
        *((row.requirement, row.verdict, row.measured) for row in rows),
    ]
    return aligned(cells)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text in columns. The first one is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    heading, *rest = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    rule = "  ".join("─" * min(width, _WIDEST_RULE) for width in widths)
    return "\n".join([heading, rule, *rest])


def _measured(value: float, unit: str, note: str) -> str:
    if isinf(value):
        return "never" + (f" ({note})" if note else "")
    digits = 0 if value == int(value) or abs(value) >= 1_000 else 1
    return f"{value:,.{digits}f} {unit}".rstrip() + (f" ({note})" if note else "")
