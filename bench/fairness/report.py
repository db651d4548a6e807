"""The table and the plot of the comparison, and what it says of the goals."""

from collections.abc import Iterator, Mapping
from math import nan
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from bench.fairness.handler import FIRST_COME, OWN, ROUND_ROBIN
from bench.fairness.scenarios import GREEDIES, Greedy
from bench.report import Row, aligned, at_least, at_most

mpl.use("Agg")

Figures = Mapping[str, Any]
BY_DEFAULT = "default"  # Evenflow's own order with the default places
NAMES = {
    OWN: "Evenflow",
    BY_DEFAULT: "Evenflow, default places",
    ROUND_ROBIN: "round robin by request",
    FIRST_COME: "first come",
}
COLOURS = {OWN: "#2a6f97", BY_DEFAULT: "#7fb3d1", ROUND_ROBIN: "#e07a1f", FIRST_COME: "#a9b4c2"}
COLUMNS = (
    "tasks", "order", "first token ms p50 / p99, alone", *(f"beside {it.name}" for it in GREEDIES),
    "Jain, lowest 10 s", "gap, tokens (largest answer)", "weights 1:2:4",
    "tokens/s, mixed / alike",
)  # fmt: skip
SLOWER = 1.15  # the quiet tenant's p99 beside the greedy one, of its p99 alone
FAIR = 0.99
LARGEST_ANSWERS = 2.0
OF_THROUGHPUT_PERCENT = 98.0


def preferred(greedy: Greedy) -> str:
    """The name of a stretch in which each of the engine's steps computes the quiet tenant's prompt
    first. No order before an engine can do that.
    """
    return f"beside {greedy.name}, preferred by the engine"


def slower(figures: Figures, what: str) -> float:
    """How many times its own the quiet tenant's p99 is; infinite where it was not answered."""
    beside = figures[what]["first_token_ms"]["p99"]
    alone = figures["alone"]["first_token_ms"]["p99"]
    return float("inf") if beside is None else float(beside / alone)


def table(found: Mapping[int, Mapping[str, Figures]]) -> str:
    """A line for each number of tasks and each order."""
    rows = [
        COLUMNS,
        *(_row(tasks, order, it) for tasks, by in found.items() for order, it in by.items()),
    ]
    return aligned(rows)


def _row(tasks: int, order: str, figures: Figures) -> tuple[str, ...]:
    equal, weighted = figures["equal"], figures["weighted"]
    return (
        str(tasks),
        NAMES[order],
        _first_tokens(figures["alone"]),
        *(_first_tokens(figures[f"beside {it.name}"]) for it in GREEDIES),
        f"{equal['jain_lowest']:.3f}",
        f"{equal['gap']:,} ({equal['largest']:,.0f})",
        " : ".join(f"{share:.2f}" for share in _shares(weighted)),
        f"{equal['tokens_per_second']:,.0f} / {weighted['tokens_per_second']:,.0f}",
    )


def _shares(weighted: Figures) -> list[float]:
    """What each was given, of what the lightest was given."""
    given = list(weighted["service_per_second"].values())
    return [it / given[0] if given[0] else nan for it in given]


def _first_tokens(figures: Figures) -> str:
    times = figures["first_token_ms"]
    pair = ("none" if times[it] is None else f"{times[it]:,.0f}" for it in ("p50", "p99"))
    refused = f", {figures['refused']} refused" if figures["refused"] else ""
    unanswered = figures["asked"] - figures["answered"] - figures["refused"]
    missing = f", {unanswered} not begun" if unanswered else ""
    return f"{' / '.join(pair)}{refused}{missing}"


def goals(found: Mapping[int, Mapping[str, Figures]]) -> list[Row]:
    """What Evenflow's own order has to reach, by default where nothing else was measured."""
    return [row for tasks, by in found.items() for row in _goals(tasks, by)]


def _goals(tasks: int, by: Mapping[str, Figures]) -> Iterator[Row]:
    own, of = by[OWN if OWN in by else BY_DEFAULT], _tasks(tasks)
    for beside in (f"beside {it.name}" for it in GREEDIES):
        yield at_most(
            f"{of}: the quiet tenant's first token {beside}, p99, of its own alone",
            100 * slower(own, beside),
            100 * SLOWER,
            "%",
            _where(own[beside]),
        )
    for what in filter(own.__contains__, map(preferred, GREEDIES)):
        yield Row(f"{of}: {what}", f"{100 * slower(own, what):.0f} %", "what can be had")
    equal, weighted = own["equal"], own["weighted"]
    yield at_least(f"{of}: Jain's index of equal tenants", equal["jain_lowest"], FAIR, "")
    yield at_least(f"{of}: of weights 1:2:4", weighted["jain_lowest"], FAIR, "")
    yield at_most(
        f"{of}: service gap, largest answers", equal["gap"] / equal["largest"], LARGEST_ANSWERS, ""
    )
    if FIRST_COME in by:
        # Of answers that are all alike. Otherwise orders give different ones, and those with few
        # tokens leave their places empty more often, until the next one's first token.
        of_first_come = (
            weighted["tokens_per_second"] / by[FIRST_COME]["weighted"]["tokens_per_second"]
        )
        yield at_least(
            f"{of}: tokens/s of answers that are alike, of first come's",
            100 * of_first_come,
            OF_THROUGHPUT_PERCENT,
            "%",
        )


def _where(beside: Figures) -> str:
    """Where the slowest tenth of the first tokens waited."""
    stages = beside["stages_ms"].get("slowest", {})
    return "slowest tenth, ms: " + ", ".join(
        f"{name.replace('_', ' ')} {time:.0f}" for name, time in stages.items()
    )


def plot(found: Mapping[int, Mapping[str, Figures]], path: Path) -> None:
    """The quiet tenant's p99 of each order, and how the equal tenants shared."""
    figure, (waits, shares) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    beside = [f"beside {it.name}" for it in GREEDIES]
    groups = [(tasks, when) for tasks in found for when in ("alone", *beside)]
    for place, (order, name) in enumerate(NAMES.items()):
        heights = [_p99(found[tasks].get(order), when) for tasks, when in groups]
        at = [index + 0.21 * (place - 1.5) for index in range(len(groups))]
        waits.bar(at, heights, width=0.21, color=COLOURS[order], label=name)
        fair = [found[tasks].get(order, {}).get("equal", {}) for tasks in found]
        shares.bar(
            [index + 0.21 * (place - 1.5) for index in range(len(found))],
            [it.get("jain_lowest", 0.0) for it in fair],
            width=0.21,
            color=COLOURS[order],
        )
    waits.margins(y=0.35)  # for the legend
    waits.set_ylabel("the quiet tenant's first token, p99, ms\n(no bar: not answered)")
    labels = [f"{_tasks(tasks)},\n{when.replace(' ', chr(10))}" for tasks, when in groups]
    waits.set_xticks(range(len(groups)), labels, fontsize=8)
    waits.legend(frameon=False, fontsize=8, loc="upper center")
    shares.set_xticks(range(len(found)), map(_tasks, found))
    shares.set_ylabel("Jain's index of equal tenants,\nlowest 10 s")
    shares.set_ylim(0, 1.05)
    shares.axhline(FAIR, color="#444444", linewidth=0.8, linestyle="--")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _p99(figures: Figures | None, when: str) -> float:
    return nan if figures is None else float(figures[when]["first_token_ms"]["p99"] or nan)


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
