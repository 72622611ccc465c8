"""Curves with bands, small multiples of them, and dots with bars, drawn once for light pages, dark pages and paper."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from rankloop.core.types import Floats, Ints
from rankloop.experiments.analysis.curves import number
from rankloop.experiments.report.model import Chart

if TYPE_CHECKING:  # it takes half a second, for which nobody who draws nothing should wait
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#2f7ed8", "#e8710a", "#12a170", "#d6336c", "#8659d8", "#b58900", "#0aa2b5", "#7a6652")
QUIET = "#8a8f98"  # floor and ceiling
INK = "#010203"  # stands for the colour of the page's text
SIZE = (7.2, 3.9)
CELL = (2.15, 1.55)  # inches, of small multiples
GAP = 0.062  # between two labels, as a share of the height
WIDTH = 0.6  # of a group of dots
Role = Literal["arm", "floor", "ceiling"]
STYLES: dict[str, Literal["solid", "dashed", "dotted"]] = {"arm": "solid", "floor": "dashed", "ceiling": "dotted"}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.formatter.use_mathtext": True,
}


class Line(NamedTuple):
    """One curve: `rows` holds a value per seed (down) and point (across); its mean is drawn, with a band around it.

    `colour` counts through the palette, so that an arm has the same one in every chart.
    """

    name: str
    rows: Floats
    colour: int = 0
    role: Role = "arm"


def chart(
    name: str,
    title: str,
    rounds: Ints,
    lines: Sequence[Line],
    *,
    caption: str = "",
    x_label: str = "rounds",
    y_label: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> Chart:
    """Mean over seeds and a band of ± 1 standard error, each curve labelled at its end."""
    with _figure(name, SIZE) as figure:
        axes = figure.subplots()
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.set_xscale("log" if log_x else "linear")
        axes.set_yscale("log" if log_y else "linear")
        axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
        axes.set_axisbelow(True)
        for line in lines:
            _draw(axes, rounds, line, log_y)
        axes.set_xlim(rounds[0], rounds[-1])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        _label(axes, lines)
        return Chart(name, title, caption, _svg_of(figure), _png_of(figure))


def band(rows: Floats) -> tuple[Floats, Floats]:
    """Mean over seeds and its standard error, 0 where there is one seed; seeds without a value are left out."""
    present = ~np.isnan(rows)
    n = present.sum(axis=0)
    filled = np.where(present, rows, 0.0)
    mean = np.divide(filled.sum(axis=0), n, out=np.full(rows.shape[1], np.nan), where=n > 0)
    squares = np.where(present, (rows - mean) ** 2, 0.0).sum(axis=0)
    variance = np.divide(squares, n - 1, out=np.zeros(rows.shape[1]), where=n > 1)
    return mean, np.sqrt(variance / np.maximum(n, 1))


def _colour(line: Line) -> str:
    return PALETTE[line.colour % len(PALETTE)] if line.role == "arm" else QUIET


def _draw(axes: "Axes", rounds: Ints, line: Line, log_y: bool) -> None:
    colour = _colour(line)
    mean, error = band(line.rows)
    if log_y:
        mean = np.where(mean > 0.0, mean, np.nan)
    axes.plot(rounds, mean, color=colour, linestyle=STYLES[line.role], linewidth=2.0 if line.role == "arm" else 1.4)
    if line.role == "arm":
        low = np.maximum(mean - error, mean / 10) if log_y else mean - error
        axes.fill_between(rounds, low, mean + error, color=colour, alpha=0.18, linewidth=0)


def _label(axes: "Axes", lines: Sequence[Line]) -> None:
    """Name and last value of every curve beside its end, pushed apart where they would overlap."""
    ends = []
    for line in lines:
        last = band(line.rows)[0][-1]
        if np.isfinite(last):
            height = axes.transAxes.inverted().transform(axes.transData.transform((1.0, last)))[1]
            ends.append((float(height), f"{line.name}  {number(last)}", _colour(line)))
    ends.sort()
    for height, (_, text, colour) in zip(spread([end[0] for end in ends], GAP), ends):
        axes.text(1.015, height, text, color=colour, transform=axes.transAxes, va="center", fontsize=9.5)


def spread(heights: list[float], gap: float) -> list[float]:
    """Rising heights moved as little as needed to stand at least `gap` apart; a crowd stays around its middle."""
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _bottom(groups[-1], gap) < _top(groups[-2], gap) + gap:
            last = groups.pop()
            groups[-1].extend(last)
    return [_bottom(group, gap) + position * gap for group in groups for position in range(len(group))]


def _bottom(group: list[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: list[float], gap: float) -> float:
    return _bottom(group, gap) + gap * (len(group) - 1)


Cells = Mapping[tuple[str, str], tuple[Ints, Sequence[Line]]]  # row and column → rounds and curves


def small_multiples(name: str, title: str, cells: Cells, *, caption: str = "", y_label: str = "") -> Chart:
    """One cell for each pair of a row and a column; the cells of a row share their height, all share the rounds."""
    rows, columns = (list(dict.fromkeys(key[side] for key in cells)) for side in (0, 1))
    size = CELL[0] * len(columns), CELL[1] * len(rows)
    with _figure(name, size, layout="constrained", font_size=8.5) as figure:
        grid = figure.subplots(len(rows), len(columns), sharex=True, sharey="row", squeeze=False)
        for (row, column), (rounds, lines) in cells.items():
            _draw_panel(grid[rows.index(row), columns.index(column)], rounds, lines)
        for position, row in enumerate(rows):
            grid[position, 0].set_ylabel("\n".join([*row.split(", "), *filter(None, [y_label])]))
        for position, column in enumerate(columns):
            grid[0, position].set_title(column, fontsize=9.5)
            grid[-1, position].set_xlabel("rounds")
        _legend(figure, next(iter(cells.values()))[1])
        return Chart(name, title, caption, _svg_of(figure), _png_of(figure))


def _draw_panel(axes: "Axes", rounds: Ints, lines: Sequence[Line]) -> None:
    axes.set_xscale("log")
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
    for line in lines:
        axes.plot(rounds, band(line.rows)[0], color=_colour(line), linestyle=STYLES[line.role], linewidth=1.3)
    axes.set_xlim(rounds[0], rounds[-1])


def _legend(figure: "Figure", lines: Sequence[Line]) -> None:
    from matplotlib.lines import Line2D

    samples = [Line2D([], [], color=_colour(line), linestyle=STYLES[line.role], linewidth=2) for line in lines]
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
    with _figure(name, SIZE) as figure:
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
        return Chart(name, title, caption, _svg_of(figure), _png_of(figure))


@contextmanager
def _figure(
    name: str, size: tuple[float, float], layout: Literal["constrained"] | None = None, font_size: float = 10.5
) -> Iterator["Figure"]:
    """An empty figure in our style, the same bytes whenever it is drawn."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE | {"svg.hashsalt": name, "font.size": font_size}):
        figure = Figure(figsize=size, layout=layout)
        FigureCanvasAgg(figure)
        yield figure


def _svg_of(figure: "Figure") -> str:
    """Only the picture, with the page's own text colour and font."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return svg.replace("'DejaVu Sans'", "inherit")


def _png_of(figure: "Figure") -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, bbox_inches="tight", facecolor="white")
    return buffer.getvalue()
