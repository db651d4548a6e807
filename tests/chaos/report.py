"""What a run says at its end: one table, the targets, and as JSON all that was counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.chaos.answer import Answer
from tests.chaos.answer_check import Kind
from tests.chaos.outcome import Cause
from tests.chaos.plan import Plan
from tests.chaos.window import Window

_MIB = 1024 * 1024
_HEADINGS = (
    "fault", "in flight", "answers", "deltas", "gaps", "dupl.", "wrong", "proto.", "lost", "unfin.",
    "twice", "restarts", "errors", "recovery p50/95/99 s", "resume p50/95/99 ms", "drain s",
    "calls", "lines", "peak MiB",
)  # fmt: skip
_RESUME_TARGET_MS = 100.0
_RECOVERY_TARGET_SECONDS = 3.5
_ABOVE_THE_RATE = 0.01


def table(windows: Sequence[Window]) -> str:
    """A line for each fault."""
    lines = [_HEADINGS, *(_line(window) for window in windows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    aligned = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    return "\n".join([aligned[0], "  ".join("─" * width for width in widths), *aligned[1:]])


def notes(windows: Iterable[Window]) -> str:
    """What doesn't fit into the table, a paragraph for each fault."""
    return "\n".join(
        f"{window.fault}:\n" + "".join(f"    {note}\n" for note in _notes(window))
        for window in windows
    )


def targets(windows: Sequence[Window], plan: Plan) -> list[str]:
    """The timings that the run is asked to show, each met or missed.

    They depend on what else the machine does.
    """
    verdicts = []
    calm = [seconds for window in windows if window.fault == "none" for seconds in _resumes(window)]
    if calm:
        p95 = 1000 * float(np.percentile(calm, 95))
        verdicts.append(
            _verdict("resume after a mere reconnect, p95", p95, _RESUME_TARGET_MS, "ms")
        )
    for window in windows:
        if window.fault == "kill" and window.recoveries:
            p95 = float(np.percentile(window.recoveries, 95))
            verdicts.append(
                _verdict("recovery after SIGKILL, p95", p95, _RECOVERY_TARGET_SECONDS, "s")
            )
        if window.drain_seconds is not None:
            verdicts.append(
                _verdict(
                    f"{window.fault}: left after", window.drain_seconds, plan.drain_seconds, "s"
                )
            )
        if window.arrivals is not None:
            above = 100 * window.arrivals.above
            verdicts.append(
                _verdict(
                    f"{window.fault}: arrivals above the rate", above, 100 * _ABOVE_THE_RATE, "%"
                )
            )
    return verdicts


def as_figures(window: Window) -> dict[str, Any]:
    """For JSON."""
    return {
        "fault": window.fault,
        "in_flight": window.in_flight,
        "answers": window.answers,
        "deltas": window.deltas,
        "characters": window.characters,
        "restarts": window.restarts,
        "lags": window.lags,
        "problems": dict(window.problems),
        "errors": dict(window.errors),
        "refusals": dict(window.refusals),
        "turns": dict(window.turns),
        "closes": dict(window.closes),
        "vias": dict(window.vias),
        "recovery_seconds": _quantiles(window.recoveries),
        "resume_seconds": {cause: _quantiles(times) for cause, times in window.resumes.items()},
        "drain_seconds": window.drain_seconds,
        "arrivals": str(window.arrivals) if window.arrivals else None,
        "model_calls": window.model_calls,
        "billed_twice": window.billed_twice,
        "answer_lines": window.answer_lines,
        "usage_records": window.usage_records,
        "peak_mib": round(window.peak_bytes / _MIB),
        "remarks": window.remarks,
        "misses": window.misses,
    }


def write(folder: Path, plan: Plan, windows: Sequence[Window], text: str) -> None:
    """Keep the report and its figures."""
    (folder / "report.txt").write_text(text)
    figures = {
        "seed": plan.seed,
        "answers": plan.answers,
        "faults": [as_figures(window) for window in windows],
    }
    (folder / "report.json").write_text(json.dumps(figures, indent=2) + "\n")


def story(answer: Answer) -> str:
    """Everything known about an answer with problems: what is wrong, and each reader's latest
    frames.
    """
    about = (
        f"session {answer.session.session_id}, message {answer.message_id}, owner "
        f"{answer.owner[:4]}"
    )
    lines = [
        f"{answer.response_id} ({about}, fault {answer.window.fault}, {answer.script.question})"
    ]
    for number, check in enumerate(answer.checks):
        lines.append(f"  reader {number}: " + ("no problem" if not check.problems else ""))
        lines += [f"    {problem.kind.upper()}: {problem.detail}" for problem in check.problems]
        if check.problems:
            lines += [
                f"      {at - answer.began_at:8.3f} s  {by:<20} {frame!s:.300}"
                for at, by, frame in check.frames
            ]
    return "\n".join(lines)


def _line(window: Window) -> tuple[str, ...]:
    problems = window.problems
    kinds = (Kind.GAP, Kind.DUPLICATE, Kind.WRONG_BYTES, Kind.PROTOCOL, Kind.LOST, Kind.UNFINISHED)
    drained = "" if window.drain_seconds is None else f"{window.drain_seconds:.1f}"
    counts = (window.in_flight, window.answers, window.deltas, *(problems[kind] for kind in kinds))
    return (
        window.fault,
        *(f"{count:,}" for count in counts),
        f"{window.billed_twice:,}",
        f"{window.restarts:,}",
        f"{window.errors.total():,}",
        _three(window.recoveries, 1),
        _three(_resumes(window), 1000),
        drained,
        f"{window.model_calls:,}",
        f"{window.answer_lines:,}",
        f"{window.peak_bytes / _MIB:.0f}",
    )


def _notes(window: Window) -> Iterable[str]:
    yield from (f"FAILED: {miss}" for miss in window.misses)
    yield from window.remarks
    counted: dict[str, Counter[Any]] = {
        "errors": window.errors,
        "refused": window.refusals,
        "connections ended": window.turns,
        "close codes": window.closes,
        "via": window.vias,
    }
    for name, counter in counted.items():
        if counter:
            yield f"{name}: " + ", ".join(
                f"{what} {count:,}" for what, count in counter.most_common()
            )
    for cause, times in window.resumes.items():
        yield f"resume when {cause}: {len(times):,}, p50/95/99 {_three(times, 1000)} ms"
    if window.lags:
        yield f"lag frames: {window.lags:,}"


def _resumes(window: Window) -> list[float]:
    """Those after a mere reconnect."""
    return window.resumes.get(Cause.OWN, [])


def _three(times: Sequence[float], scale: float) -> str:
    if not times:
        return ""
    digits = 0 if scale > 1 else 1
    return "/".join(f"{scale * value:.{digits}f}" for value in np.percentile(times, (50, 95, 99)))


def _quantiles(times: Sequence[float]) -> dict[str, float]:
    if not times:
        return {"count": 0}
    p50, p95, p99 = (round(float(value), 4) for value in np.percentile(times, (50, 95, 99)))
    return {"count": len(times), "p50": p50, "p95": p95, "p99": p99}


def _verdict(what: str, value: float, bound: float, unit: str) -> str:
    return (
        f"{'met   ' if value <= bound else 'MISSED'}  {what}: {value:.4g} {unit} (at most "
        f"{bound:g})"
    )
