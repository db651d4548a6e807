"""The jitter at the client against the number of connections, as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

mpl.use("Agg")

COLOURS = {"p50": "#2a6f97", "p95": "#e07a1f", "p99": "#b5179e"}


def plot_jitter(streaming: Mapping[str, Any], path: Path) -> None:
    """`streaming`: the figures of the scenario of that name."""
    counts = [step["connections"] for step in streaming["steps"]]
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, colour in COLOURS.items():
        values = [step["client_jitter_ms"][name] for step in streaming["steps"]]
        axes.plot(counts, values, marker="o", color=colour, label=f"Evenflow {name}")
        axes.plot(
            counts[-1:],
            [streaming["bare"][name]],
            marker="x",
            color=colour,
            linestyle="",
            label=f"bare picows {name}",
        )
    axes.set_xlabel(
        f"connections, each streaming at {streaming['interval_ms']} ms (one server core)"
    )
    axes.set_ylabel("|gap - interval| at the client, ms")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(ncols=2, frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
