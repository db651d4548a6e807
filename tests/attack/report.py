"""What a run says at its end: one table, and why attacks failed it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.attack.verdict import MIB, Disk, Measured, Memory

_COLUMNS = (
    ("", ("attack",)),
    ("first token, p95 ms", ("quiet", "during", "after")),
    ("longest gap, p95 ms", ("quiet", "during")),
    ("CPU, % of a core", ("quiet", "during")),
    ("memory, MiB", ("quiet", "peak", "after")),
    ("disk, MiB", ("quiet", "peak", "after")),
    ("", ("broken", "lines/s", "bytes sent", "verdict", "the attacker")),
)
_BETWEEN = "  "


def table(measured: Sequence[Measured]) -> str:
    """A line for each attack."""
    headings = tuple(heading for _, columns in _COLUMNS for heading in columns)
    lines = [headings, *(_line(it) for it in measured)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    aligned = [
        _BETWEEN.join(
            cell.ljust(width) if column in {0, len(widths) - 1} else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    rule = _BETWEEN.join("─" * width for width in widths)
    return "\n".join([_groups(widths), aligned[0], rule, *aligned[1:]])


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
        "first_token_p95_ms": [_ms(one.first_token) for one in (it.before, it.during, it.after)],
        "longest_gap_p95_ms": [_ms(one.gap) for one in (it.before, it.during, it.after)],
        "cpu_percent": [_percent(it.cpu_before), _percent(it.cpu_during)],
        "memory_mib": [*_sizes(it.memory)],
        "disk_mib": [*_sizes(it.disk)],
        "broken": dict(it.broken),
        "sent_bytes": it.sent_bytes,
        "log_bytes": it.log_bytes,
        "log_lines_per_second": round(it.lines_per_second, 1),
        "failures": it.failures,
    }


def write(folder: Path, measured: Sequence[Measured], text: str) -> None:
    """Keep the report and its figures."""
    (folder / "report.txt").write_text(text)
    figures = [as_figures(it) for it in measured]
    (folder / "report.json").write_text(json.dumps(figures, indent=2) + "\n")


def _groups(widths: Sequence[int]) -> str:
    """The line above the headings, which groups them."""
    left, groups = list(widths), list[str]()
    for name, columns in _COLUMNS:
        own, left = left[: len(columns)], left[len(columns) :]
        groups.append(name.rjust(sum(own) + len(_BETWEEN) * (len(own) - 1)))
    return _BETWEEN.join(groups).rstrip()


def _line(it: Measured) -> tuple[str, ...]:
    return (
        it.name,
        *(_ms(one.first_token) for one in (it.before, it.during, it.after)),
        *(_ms(one.gap) for one in (it.before, it.during)),
        *(_percent(share) for share in (it.cpu_before, it.cpu_during)),
        *_sizes(it.memory),
        *_sizes(it.disk),
        f"{it.broken.total():,}" if it.questions else "",
        f"{it.lines_per_second:,.0f}",
        f"{it.sent_bytes:,}",
        "FAILED" if it.failures else "held",
        it.did,
    )


def _sizes(sizes: Memory | Disk | None) -> tuple[str, str, str]:
    if sizes is None:
        return ("", "", "")
    before, peak, after = (f"{size / MIB:,.0f}" for size in (sizes.before, sizes.peak, sizes.after))
    return before, peak, after


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1_000 * seconds:,.0f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f}"
