"""The text on the screen with and without the playout smoother, as a picture."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

mpl.use("Agg")

ON_ARRIVAL, SMOOTHED = "#e07a1f", "#0b7463"
WINDOW_SECONDS = 4.0


def plot_smoother(
    arrived: Sequence[tuple[float, str]],
    shown: Sequence[tuple[float, str]],
    gaps_on_arrival: NDArray[np.float64],
    gaps_smoothed: NDArray[np.float64],
    path: Path,
) -> None:
    """One answer around its longest stall, and the gaps of all of them; times are milliseconds."""
    figure, (text, gaps) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    times = np.array([at for at, _ in arrived])
    middle = times[int(np.argmax(np.diff(times)))] / 1000
    for pieces, colour, name in (
        (arrived, ON_ARRIVAL, "on arrival"),
        (shown, SMOOTHED, "smoothed"),
    ):
        at = np.array([when for when, _ in pieces]) / 1000
        text.step(
            at, np.cumsum([len(it) for _, it in pieces]), where="post", color=colour, label=name
        )
    begin, end = middle - WINDOW_SECONDS / 2, middle + WINDOW_SECONDS / 2
    lengths = np.cumsum([len(it) for _, it in arrived])[
        (times / 1000 >= begin) & (times / 1000 <= end)
    ]
    text.set(xlim=(begin, end), ylim=(lengths[0] - 20, lengths[-1] + 20))
    text.set(xlabel="seconds", ylabel="characters on the screen", title="around the longest stall")
    for values, colour in ((gaps_on_arrival, ON_ARRIVAL), (gaps_smoothed, SMOOTHED)):
        ordered = np.sort(values)
        gaps.step(
            ordered, 100 * np.arange(1, len(ordered) + 1) / len(ordered), where="post", color=colour
        )
        p95 = float(np.percentile(values, 95))
        gaps.plot([p95], [95], marker="o", linestyle="", color=colour, label=f"p95 {p95:.0f} ms")
    gaps.set(xlabel="gap between two changes of the text, ms", ylabel="% of gaps", title="all gaps")
    gaps.set(xlim=(0, float(gaps_on_arrival.max()) * 1.05), ylim=(0, 101))
    for axes in (text, gaps):
        axes.grid(alpha=0.3)
    text.legend(frameon=False, loc="upper left")
    gaps.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=120)
    plt.close(figure)
