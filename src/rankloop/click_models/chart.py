"""What a fit says, as a picture: how each position is examined, and how well each model foresees clicks there."""

from pathlib import Path

import numpy as np

from rankloop.click_models.fit import UserFit, examined_by_position
from rankloop.core.errors import InvalidInput

PICTURES = (".png", ".svg", ".pdf")
BLUE, GREY = "#2f7ed8", "#8a8f98"


def plot_fit(found: UserFit, path: Path) -> None:
    """Two panels, into a PNG, SVG or PDF file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_picture(path)
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    examined = examined_by_position(found.fitted)
    left.plot(np.arange(1, len(examined) + 1), examined, marker="o", color=BLUE)
    left.set(xlabel="position", ylabel="probability", ylim=(0.0, 1.05), title=f"examined, by {found.fitted.name}")
    for name, judged in found.held_out.items():
        chosen = name == found.fitted.name
        positions = np.arange(1, len(judged.by_position) + 1)
        right.plot(positions, judged.by_position, color=BLUE if chosen else GREY, linewidth=2.0 if chosen else 1.0)
        right.annotate(name, (positions[-1], judged.by_position[-1]), xytext=(4, -3), textcoords="offset points")
    right.set(xlabel="position", title="perplexity on held-out visits (1: foreseen)")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160, facecolor="white")


def check_picture(path: Path) -> None:
    """Refuse a name that is no picture's, before anything is computed."""
    if path.suffix.lower() not in PICTURES:
        raise InvalidInput(f"--plot {path}: the name must end with .png, .svg or .pdf")
