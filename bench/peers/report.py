"""The table and the plot of the comparison."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from bench.peers.systems import SYSTEMS
from bench.report import aligned

mpl.use("Agg")

Figures = Mapping[str, Any]
FLOOR = "direct"  # no system: what the load and the model cost
COLUMNS = (
    "system", "added ms p50 / p95, 100 streams", "1,000 streams", "jitter ms p95, 100 / 1,000",
    "tokens/s a core", "KB a stream", "trace: first token ms p50 / p95", "reader leaves: the model",
    "cut connections",
)  # fmt: skip
BUSY_PERCENT = 90.0
DISTURBED_PERCENT = 10.0


def report(found: Mapping[str, Figures]) -> str:
    """The table, who is best at what, and how each was set up."""
    rows = [COLUMNS, *(_row(key, figures) for key, figures in found.items() if "load" in figures)]
    lines = [aligned(rows)]
    lines += [
        f"{_name(key)}: not measured: {figures['failure']}"
        for key, figures in found.items()
        if "failure" in figures
    ]
    return "\n".join([*lines, "", *_winners(found), "", *_notes(found), *_warnings(found)])


def _row(key: str, figures: Figures) -> tuple[str, ...]:
    load = figures["load"]
    if "failure" in load:
        return (_name(key), f"not measured: {load['failure']}", *("" for _ in COLUMNS[2:]))
    return (
        _name(key),
        _pair(step_of(figures, 100), "added_ms"),
        _pair(step_of(figures, 1_000), "added_ms"),
        f"{_jitter(step_of(figures, 100))} / {_jitter(step_of(figures, 1_000))}",
        _rate(figures),
        _memory(figures),
        _first_token(figures.get("trace", {})),
        _leaving(figures.get("leaving", {})),
        _cut(figures),
    )


def step_of(figures: Figures, streams: int) -> Figures | None:
    """What was measured at so many streams."""
    steps = figures.get("load", {}).get("steps", ())
    return next((step for step in steps if step["streams"] == streams), None)


def rate(figures: Figures) -> float | None:
    """Tokens a second that one core would relay: those measured, for each CPU second used, at the
    fullest step; None where nothing is between.
    """
    steps = [it for it in figures["load"]["steps"] if it.get("tokens_per_core_second")]
    if not steps:
        return None
    return float(max(steps, key=lambda it: it["server_cpu_percent"])["tokens_per_core_second"])


def memory_kb(figures: Figures) -> float | None:
    """Of one more stream, between the first step and the last."""
    steps = [step for step in figures["load"]["steps"] if step.get("memory_bytes")]
    if not steps or steps[-1]["reading"] == steps[0]["reading"]:
        return None
    first, last = steps[0], steps[-1]
    grown = last["memory_bytes"] - first["memory_bytes"]
    return float(grown / (last["reading"] - first["reading"]) / 1_000)


def clean(figures: Figures) -> bool:
    """Every cut connection got every token once."""
    cut = figures.get("cut", {})
    content = cut.get("content")
    faults = ("gaps", "duplicates", "wrong", "unfinished")
    return content is not None and not any(content[kind] for kind in faults)


def _name(key: str) -> str:
    return next(system.name for system in SYSTEMS if system.key == key)


def _pair(step: Figures | None, kind: str) -> str:
    if step is None:
        return "not reached"
    if kind not in step:
        return "no token came"
    text = f"{step[kind]['p50']:.1f} / {step[kind]['p95']:.1f}"
    return text if served(step) else f"{text} (only {step['reading']:,} got any)"


def served(step: Figures) -> bool:
    """Every stream got tokens while it was measured, but for one in a hundred."""
    return bool(step["reading"] >= 0.99 * step["streams"])


def _jitter(step: Figures | None) -> str:
    return f"{step['jitter_ms']['p95']:.1f}" if step and "jitter_ms" in step else "-"


def _rate(figures: Figures) -> str:
    value = rate(figures)
    if value is None:
        return "-"
    steps = [step for step in figures["load"]["steps"] if "server_cpu_percent" in step]
    full = max(steps, key=lambda step: step["server_cpu_percent"])
    percent = full["server_cpu_percent"]
    if percent >= BUSY_PERCENT:
        return f"{value:,.0f} ({full['streams']:,} streams)"
    return f"about {float(f'{value:.2g}'):,.0f} ({full['tokens_per_second']:,} at {percent:.0f} %)"


def _memory(figures: Figures) -> str:
    value = memory_kb(figures)
    return "-" if value is None else f"{value:.0f}"


def _first_token(trace: Figures) -> str:
    if "failure" in trace or not trace:
        return "not measured"
    text = f"{trace['first_token_ms']['p50']:.1f} / {trace['first_token_ms']['p95']:.1f}"
    content = trace["content"]
    faults = sum(content[kind] for kind in ("gaps", "duplicates", "wrong", "unfinished"))
    return text + (f" ({faults} faults)" if faults else "")


def _leaving(leaving: Figures) -> str:
    if "failure" in leaving or not leaving:
        return "not measured"
    if leaving["stopped"] == leaving["readers"]:
        return f"stopped after {leaving['after_seconds']:.1f} s"
    if leaving["stopped"]:
        return f"{leaving['stopped']} of {leaving['readers']} stopped"
    return f"goes on (watched {leaving['watched_seconds']:.0f} s)"


def _cut(figures: Figures) -> str:
    cut = figures.get("cut")
    if cut is None:
        return "cannot: no resume"
    if "failure" in cut:
        return "not measured"
    if clean(figures):
        return f"{cut['connections']:,}: every token once"
    content = cut["content"]
    kinds = ("gaps", "duplicates", "wrong", "unfinished")
    return f"{cut['connections']:,}: " + ", ".join(f"{content[kind]} {kind}" for kind in kinds)


def _winners(found: Mapping[str, Figures]) -> list[str]:
    """Who is best at what, of those that were measured; the floor does not take part."""
    measured = {
        key: figures
        for key, figures in found.items()
        if key != FLOOR and "steps" in figures.get("load", {})
    }

    def best(what: str, value: Callable[[Figures], float | None], unit: str, *, most: bool) -> str:
        values = {key: value(figures) for key, figures in measured.items()}
        known = {key: it for key, it in values.items() if it is not None}
        if not known:
            return f"{what}: nobody was measured"
        key = (max if most else min)(known, key=lambda it: known[it])
        return f"{what}: {_name(key)}, {known[key]:,.1f} {unit}"

    def added(streams: int) -> Callable[[Figures], float | None]:
        def value(figures: Figures) -> float | None:
            step = step_of(figures, streams)
            return step["added_ms"]["p95"] if step and "added_ms" in step and served(step) else None

        return value

    return [
        "Best of those measured (no server between does not count):",
        best("  added latency p95, 100 streams", added(100), "ms", most=False),
        best("  added latency p95, 1,000 streams", added(1_000), "ms", most=False),
        best("  tokens/s a core", rate, "", most=True),
        best("  memory of a stream", memory_kb, "KB", most=False),
        "  every token once after a cut: "
        + (", ".join(_name(key) for key, it in measured.items() if clean(it)) or "nobody"),
    ]


def _notes(found: Mapping[str, Figures]) -> list[str]:
    lines = []
    for system in SYSTEMS:
        if figures := found.get(system.key):
            lines.append(
                f"{system.name} {figures.get('version', '')}".rstrip() + f": {system.settings}"
            )
            lines += [
                f"  {phase}: {it['failed']:,} readers failed, the first with {it['failures'][0]}"
                for phase, it in figures.items()
                if isinstance(it, Mapping) and it.get("failed")
            ]
    return lines


def _warnings(found: Mapping[str, Figures]) -> list[str]:
    disturbed = {
        _name(key): max(others)
        for key, figures in found.items()
        if (
            others := [
                step["others_on_server_core_percent"]
                for step in figures.get("load", {}).get("steps", ())
                if step.get("others_on_server_core_percent", 0.0) > DISTURBED_PERCENT
            ]
        )
    }
    if not disturbed:
        return []
    shares = ", ".join(f"{name} {percent:.0f} %" for name, percent in disturbed.items())
    return ["", f"DISTURBED: other programs took the server's core ({shares}); measure again."]


def plot(found: Mapping[str, Figures], path: Path) -> None:
    """Tokens a core, and the latency added to 100 and to 1,000 streams, as bars."""
    measured = {key: it for key, it in found.items() if "steps" in it.get("load", {})}
    names = [_name(key) for key in measured]
    figure, (rates, latencies) = plt.subplots(
        1, 2, figsize=(11, 4.5), layout="constrained", sharey=True
    )
    colours = ["#2a6f97" if key.startswith("evenflow") else "#a9b4c2" for key in measured]
    rates.barh(names, [rate(it) or 0 for it in measured.values()], color=colours)
    rates.set_xlabel("tokens/s a core")
    for streams, colour, offset in ((100, "#2a6f97", -0.2), (1_000, "#e07a1f", 0.2)):
        steps = [step_of(it, streams) or {} for it in measured.values()]
        values = [step.get("added_ms", {}).get("p95", 0) for step in steps]
        places = [place + offset for place in range(len(names))]
        latencies.barh(places, values, height=0.36, color=colour, label=f"{streams:,} streams")
    latencies.set_xscale("log")
    latencies.set_xlabel("added latency p95, ms (no bar: not reached)")
    latencies.legend(frameon=False)
    rates.invert_yaxis()
    figure.savefig(path, dpi=120)
    plt.close(figure)
