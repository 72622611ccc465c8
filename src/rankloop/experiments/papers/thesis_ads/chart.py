"""Several policies on several data sets as dots with error bars."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rankloop.core.types import Floats
from rankloop.experiments.report.charts import INK, PALETTE, SIZE, STYLE, png_of, svg_of
from rankloop.experiments.report.model import Chart

WIDTH = 0.6  # of a data set, which its policies share


def dots(
    name: str,
    title: str,
    groups: Sequence[str],
    policies: Sequence[str],
    means: Floats,
    below: Floats,
    above: Floats,
    *,
    y_label: str,
    caption: str = "",
) -> Chart:
    """`means`, and how far the bars go below and above them, have a row per policy and a column per group."""
    with mpl.rc_context(STYLE | {"svg.hashsalt": name}):
        figure = Figure(figsize=SIZE)
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        positions = np.arange(len(groups))
        for row, policy in enumerate(policies):
            shift = WIDTH * ((row + 0.5) / len(policies) - 0.5)
            bars = np.array([below[row], above[row]])
            style = {"color": PALETTE[row], "marker": "o", "linestyle": "none", "capsize": 3.0}
            axes.errorbar(positions + shift, means[row], bars, label=policy, **style)  # type: ignore[arg-type]
        axes.set_xticks(positions, groups)
        axes.set(ylabel=y_label)
        axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return Chart(name, title, caption, svg_of(figure), png_of(figure))
