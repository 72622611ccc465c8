"""Small multiples of curves, and dots with bars, in the style of the reports."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rankloop.core.types import Floats, Ints
from rankloop.experiments.report.charts import (
    ARM_COLOURS,
    LINE_STYLES,
    SIZE_INCHES,
    TEXT_COLOUR,
    Line,
    band,
    chart_of,
    colour_of,
    new_figure,
)
from rankloop.experiments.report.model import Chart

if TYPE_CHECKING:  # importing it takes half a second
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL_INCHES = (2.15, 1.55)  # of small multiples
GROUP_WIDTH = 0.6  # of a group of dots, as a share of the distance between groups
Cells = Mapping[tuple[str, str], tuple[Ints, Sequence[Line]]]  # row and column → rounds and curves


def small_multiples(name: str, title: str, cells: Cells, *, caption: str = "", y_label: str = "") -> Chart:
    """One cell for each pair of a row and a column; the cells of a row share their height, all share the rounds."""
    rows, columns = (list(dict.fromkeys(key[side] for key in cells)) for side in (0, 1))
    size = CELL_INCHES[0] * len(columns), CELL_INCHES[1] * len(rows)
    with new_figure(name, size, layout="constrained", font_size=8.5) as figure:
        grid = figure.subplots(len(rows), len(columns), sharex=True, sharey="row", squeeze=False)
        for (row, column), (rounds, lines) in cells.items():
            _draw_panel(grid[rows.index(row), columns.index(column)], rounds, lines)
        for position, row in enumerate(rows):
            grid[position, 0].set_ylabel("\n".join([*row.split(", "), *filter(None, [y_label])]))
        for position, column in enumerate(columns):
            grid[0, position].set_title(column, fontsize=9.5)
            grid[-1, position].set_xlabel("rounds")
        _legend(figure, next(iter(cells.values()))[1])
        return chart_of(figure, name, title, caption)


def _draw_panel(axes: "Axes", rounds: Ints, lines: Sequence[Line]) -> None:
    axes.set_xscale("log")
    axes.grid(axis="y", color=TEXT_COLOUR, alpha=0.12, linewidth=0.6)
    for line in lines:
        axes.plot(rounds, band(line.rows)[0], color=colour_of(line), linestyle=LINE_STYLES[line.role], linewidth=1.3)
    axes.set_xlim(rounds[0], rounds[-1])


def _legend(figure: "Figure", lines: Sequence[Line]) -> None:
    from matplotlib.lines import Line2D

    samples = [Line2D([], [], color=colour_of(line), linestyle=LINE_STYLES[line.role], linewidth=2) for line in lines]
    names = [line.name for line in lines]
    figure.legend(samples, names, loc="outside upper center", ncols=min(len(names), 5), frameon=False)


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
    with new_figure(name, SIZE_INCHES) as figure:
        axes = figure.subplots()
        positions = np.arange(len(groups))
        for row, policy in enumerate(policies):
            shift = GROUP_WIDTH * ((row + 0.5) / len(policies) - 0.5)
            bars = np.array([below[row], above[row]])
            style = {"color": ARM_COLOURS[row], "marker": "o", "linestyle": "none", "capsize": 3.0}
            axes.errorbar(positions + shift, means[row], bars, label=policy, **style)  # type: ignore[arg-type]
        axes.set_xticks(positions, groups)
        axes.set(ylabel=y_label)
        axes.grid(axis="y", color=TEXT_COLOUR, alpha=0.12, linewidth=0.6)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return chart_of(figure, name, title, caption)
