"""Many small charts side by side, with the same curves in each, for one look at everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rankloop.core.types import Ints
from rankloop.experiments.charts import INK, PALETTE, QUIET, STYLE, Line, band, png_of, svg_of
from rankloop.experiments.findings import Chart

CELL = (2.15, 1.55)  # inches
STYLES: dict[str, Literal["solid", "dashed", "dotted"]] = {"arm": "solid", "floor": "dashed", "ceiling": "dotted"}
Cells = Mapping[tuple[str, str], tuple[Ints, Sequence[Line]]]  # row and column → rounds and curves


def small_multiples(name: str, title: str, cells: Cells, *, caption: str = "", y_label: str = "") -> Chart:
    """One cell for each pair of a row and a column; the cells of a row share their height, all share the rounds."""
    rows, columns = (list(dict.fromkeys(key[side] for key in cells)) for side in (0, 1))
    size = CELL[0] * len(columns), CELL[1] * len(rows)
    with mpl.rc_context(STYLE | {"svg.hashsalt": name, "font.size": 8.5}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(rows), len(columns), sharex=True, sharey="row", squeeze=False)
        for (row, column), (rounds, lines) in cells.items():
            _draw(grid[rows.index(row), columns.index(column)], rounds, lines)
        for place, row in enumerate(rows):
            grid[place, 0].set_ylabel("\n".join([*row.split(", "), *filter(None, [y_label])]))
        for place, column in enumerate(columns):
            grid[0, place].set_title(column, fontsize=9.5)
            grid[-1, place].set_xlabel("rounds")
        _legend(figure, next(iter(cells.values()))[1])
        return Chart(name, title, caption, svg_of(figure), png_of(figure))


def _draw(axes: Axes, rounds: Ints, lines: Sequence[Line]) -> None:
    axes.set_xscale("log")
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
    for line in lines:
        axes.plot(rounds, band(line.rows)[0], color=_colour(line), linestyle=STYLES[line.role], linewidth=1.3)
    axes.set_xlim(rounds[0], rounds[-1])


def _colour(line: Line) -> str:
    return PALETTE[line.colour % len(PALETTE)] if line.role == "arm" else QUIET


def _legend(figure: Figure, lines: Sequence[Line]) -> None:
    samples = [Line2D([], [], color=_colour(line), linestyle=STYLES[line.role], linewidth=2) for line in lines]
    names = [line.name for line in lines]
    figure.legend(samples, names, loc="outside upper center", ncols=min(len(names), 5), frameon=False)
