"""Tables and curves of training results."""

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rankloop.core.extras import import_extra
from rankloop.core.files import atomic_write

BLUE, GREY = "#2f7ed8", "#8a8f98"
Curves = tuple[Sequence[float], Sequence[Sequence[float]]]  # x, and the y of each curve


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format rows of text under a header; the first column is aligned to the left, the others to the right.

    Args:
      header: The titles of the columns.
      rows: The cells of each row.
    """
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = []
    for row in (header, ["─" * width for width in widths], *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def draw_curves(path: str | os.PathLike[str], curves: Curves, chosen: float, *, xlabel: str, ylabel: str) -> None:
    """Draw curves, their mean and the chosen point, into a PNG, SVG or PDF file.

    Args:
      path: The file; its ending is the format.
      curves: The values of the choice, and a curve over them for each fold.
      chosen: The value that was chosen.
      xlabel: The name of the choice.
      ylabel: The measure that chose it.
    """
    figure = import_extra("matplotlib.figure").Figure(figsize=(7.2, 3.9))
    axes, (x, folds) = figure.subplots(), curves
    mean = np.mean(folds, axis=0)
    if len(folds) > 1:
        for curve in folds:
            axes.plot(x, curve, color=GREY, linewidth=0.8)
    axes.plot(x, mean, color=BLUE, linewidth=2.0, label="mean of the folds" if len(folds) > 1 else None)
    axes.axvline(chosen, color=BLUE, linewidth=0.8, linestyle="dashed", label=f"chosen: {chosen:g}")
    axes.set(xlabel=xlabel, ylabel=ylabel, xscale="linear" if xlabel == "passes" else "log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    buffer = io.BytesIO()
    suffix = Path(path).suffix.lstrip(".") or "png"
    figure.savefig(buffer, format=suffix, dpi=150, bbox_inches="tight", facecolor="white")
    atomic_write(Path(path), buffer.getvalue())
