"""What a run says at its end: one table, and why attacks failed it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.attack.verdict import MIB, Measured

_HEADINGS = (
    "attack", "p95 ms before", "during", "after", "MiB before", "peak", "after", "broken",
    "log bytes", "lines/s", "verdict", "the attacker",
)  # fmt: skip


def table(measured: Sequence[Measured]) -> str:
    """A line for each attack."""
    lines = [_HEADINGS, *(_line(it) for it in measured)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    aligned = [
        "  ".join(
            cell.ljust(width) if column in {0, len(widths) - 1} else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([aligned[0], "  ".join("─" * width for width in widths), *aligned[1:]])


def failures(measured: Iterable[Measured], about: dict[str, str]) -> str:
    """A paragraph for each attack that failed the run: what it is, and what went wrong."""
    return "\n\n".join(
        f"{it.name}: {about[it.name]}\n" + "\n".join(f"    FAILED: {why}" for why in it.failures)
        for it in measured
        if it.failures
    )


def as_figures(it: Measured) -> dict[str, Any]:
    """For JSON."""
    return {
        "attack": it.name,
        "did": it.did,
        "seconds": round(it.ended_at - it.began_at, 2),
        "questions": len(it.questions),
        "first_token_p95_ms": [_ms(value) for value in (it.before, it.during, it.after)],
        "memory_mib": [_mib(size) for size in _sizes(it)],
        "broken": dict(it.broken),
        "log_bytes": it.log_bytes,
        "log_lines_per_second": round(it.lines_per_second, 1),
        "failures": it.failures,
    }


def write(folder: Path, measured: Sequence[Measured], text: str) -> None:
    """Keep the report and its figures."""
    (folder / "report.txt").write_text(text)
    figures = [as_figures(it) for it in measured]
    (folder / "report.json").write_text(json.dumps(figures, indent=2) + "\n")


def _line(it: Measured) -> tuple[str, ...]:
    return (
        it.name,
        *(_ms(value) for value in (it.before, it.during, it.after)),
        *(_mib(size) for size in _sizes(it)),
        f"{it.broken.total():,}" if it.questions else "",
        f"{it.log_bytes:,}",
        f"{it.lines_per_second:,.0f}",
        "FAILED" if it.failures else "held",
        it.did,
    )


def _sizes(it: Measured) -> tuple[int | None, int | None, int | None]:
    memory = it.memory
    return (memory.before, memory.peak, memory.after) if memory else (None, None, None)


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1_000 * seconds:,.0f}"


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / MIB:,.0f}"
