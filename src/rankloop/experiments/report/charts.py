"""Curves with bands, drawn once for light pages, dark pages and paper."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from rankloop.core.types import Floats, Ints
from rankloop.experiments.analysis.curves import estimate, number
from rankloop.experiments.report.model import Chart

if TYPE_CHECKING:  # it takes half a second, for which nobody who draws nothing should wait
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#2f7ed8", "#e8710a", "#12a170", "#d6336c", "#8659d8", "#b58900", "#0aa2b5", "#7a6652")
QUIET = "#8a8f98"  # floor and ceiling
INK = "#010203"  # stands for the colour of the page's text
SIZE_INCHES = (7.2, 3.9)
MIN_LABEL_GAP = 0.062  # between two labels, as a share of the height
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
    with new_figure(name, SIZE_INCHES) as figure:
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
        return chart_of(figure, name, title, caption)


def band(rows: Floats) -> tuple[Floats, Floats]:
    """Return the mean over seeds and its standard error, 0 where there is one seed; missing values are left out."""
    estimates = [estimate(column) for column in rows.T]
    return np.array([each.mean for each in estimates]), np.nan_to_num([each.error for each in estimates])


def colour_of(line: Line) -> str:
    """Return the colour of a curve: its own for an arm, a quiet one for floor and ceiling."""
    return PALETTE[line.colour % len(PALETTE)] if line.role == "arm" else QUIET


def _draw(axes: "Axes", rounds: Ints, line: Line, log_y: bool) -> None:
    colour = colour_of(line)
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
            ends.append((float(height), f"{line.name}  {number(last)}", colour_of(line)))
    ends.sort()
    for height, (_, text, colour) in zip(spread([end[0] for end in ends], MIN_LABEL_GAP), ends):
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


@contextmanager
def new_figure(
    name: str, size: tuple[float, float], layout: Literal["constrained"] | None = None, font_size: float = 10.5
) -> Iterator["Figure"]:
    """Open an empty figure in our style, the same bytes whenever it is drawn."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE | {"svg.hashsalt": name, "font.size": font_size}):
        figure = Figure(figsize=size, layout=layout)
        yield figure


def chart_of(figure: "Figure", name: str, title: str, caption: str) -> Chart:
    """Return a drawn figure as a chart of a report."""
    return Chart(name, title, caption, _svg_of(figure), _png_of(figure))


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
