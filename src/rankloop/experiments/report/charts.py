"""Charts of curves with bands, for light pages, dark pages and print."""

import io
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from rankloop.core.extras import import_extra
from rankloop.core.types import Floats, Ints
from rankloop.experiments.analysis.curves import estimate, number
from rankloop.experiments.report.model import Chart

if TYPE_CHECKING:  # importing it takes half a second
    from matplotlib.figure import Figure

ARM_COLOURS = ("#2f7ed8", "#e8710a", "#12a170", "#d6336c", "#8659d8", "#b58900", "#0aa2b5", "#7a6652")
BASELINE_COLOUR = "#8a8f98"
FIGURE_STYLE: dict[Any, Any] = tomllib.loads(Path(__file__).with_name("figure_style.toml").read_text(encoding="utf-8"))
TEXT_COLOUR: str = FIGURE_STYLE["text.color"]  # is replaced by the text colour of the page
SIZE_INCHES = (7.2, 3.9)
Role = Literal["arm", "floor", "ceiling"]
LINE_STYLES: dict[str, Literal["solid", "dashed", "dotted"]] = {"arm": "solid", "floor": "dashed", "ceiling": "dotted"}


class Line(NamedTuple):
    """Curve: `rows` has a value per seed (row) and point (column); the mean is drawn with a band around it.

    `colour` is an index into the palette, so that an arm has the same colour in every chart.
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
    """Draw the mean over seeds with a band of ± 1 standard error, and beside it the names with the last values.

    Args:
      name: The file name of the chart.
      title: The title above it.
      rounds: The rounds on the horizontal axis.
      lines: The curves.
      caption: The text below it.
      x_label: The label of the horizontal axis.
      y_label: The label of the vertical axis.
      log_x: Use a logarithmic horizontal axis.
      log_y: Use a logarithmic vertical axis.
    """
    with new_figure(name, SIZE_INCHES) as figure:
        axes = figure.subplots()
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.set_xscale("log" if log_x else "linear")
        axes.set_yscale("log" if log_y else "linear")
        axes.grid(axis="y", color=TEXT_COLOUR, alpha=0.12, linewidth=0.6)
        axes.set_axisbelow(True)
        bands = [band(line.rows) for line in lines]
        last_means = np.array([mean[-1] for mean, _ in bands])
        for position in np.argsort(-last_means, kind="stable"):  # so that the legend stands in the order of the ends
            line, (mean, error) = lines[position], bands[position]
            if log_y:
                mean = np.where(mean > 0.0, mean, np.nan)
            colour, is_arm = colour_of(line), line.role == "arm"
            style, width = LINE_STYLES[line.role], 2.0 if is_arm else 1.4
            label = f"{line.name}  {number(last_means[position])}"
            axes.plot(rounds, mean, color=colour, linestyle=style, linewidth=width, label=label)
            if is_arm:
                low = np.maximum(mean - error, mean / 10) if log_y else mean - error
                axes.fill_between(rounds, low, mean + error, color=colour, alpha=0.18, linewidth=0)
        axes.set_xlim(rounds[0], rounds[-1])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, labelcolor="linecolor", fontsize=9.5)
        return chart_of(figure, name, title, caption)


def band(rows: Floats) -> tuple[Floats, Floats]:
    """Return the mean over seeds and its standard error, 0 where there is one seed; missing values are left out."""
    estimates = [estimate(column) for column in rows.T]
    return np.array([each.mean for each in estimates]), np.nan_to_num([each.error for each in estimates])


def colour_of(line: Line) -> str:
    """Return the colour of a curve: a palette colour for an arm, grey for floor and ceiling."""
    return ARM_COLOURS[line.colour % len(ARM_COLOURS)] if line.role == "arm" else BASELINE_COLOUR


@contextmanager
def new_figure(
    name: str, size: tuple[float, float], layout: Literal["constrained"] | None = None, font_size: float = 10.5
) -> Iterator["Figure"]:
    """Open an empty figure in the style of the reports; equal drawings give equal bytes.

    Args:
      name: The name that seeds the ids in the SVG.
      size: Width and height in inches.
      layout: The layout engine of matplotlib.
      font_size: In points.
    """
    matplotlib, figures = import_extra("matplotlib"), import_extra("matplotlib.figure")
    with matplotlib.rc_context(FIGURE_STYLE | {"svg.hashsalt": name, "font.size": font_size}):
        yield figures.Figure(figsize=size, layout=layout)


def chart_of(figure: "Figure", name: str, title: str, caption: str) -> Chart:
    """Return a drawn figure as a chart of a report, in the text colour and font of the page.

    Args:
      figure: The figure.
      name: The file name of the chart.
      title: The title above it.
      caption: The text below it.
    """
    text, png = io.StringIO(), io.BytesIO()
    figure.savefig(text, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})
    figure.savefig(png, format="png", dpi=160, bbox_inches="tight", facecolor="white")
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(TEXT_COLOUR, "currentColor").replace("'DejaVu Sans'", "inherit")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return Chart(name, title, caption, svg, png.getvalue())
