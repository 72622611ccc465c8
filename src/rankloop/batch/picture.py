"""The validation curve as a picture."""

from __future__ import annotations

import io

import numpy as np

from rankloop.batch.validation import Validated


def validation_curve(result: Validated) -> bytes:
    """A PNG: the measure on the validation queries over the regularisation, each fold and their mean."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.9))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for fold in result.folds:
        axes.plot(result.path, fold.curve, color="#8a8f98", linewidth=0.8)
        best = fold.curve[result.path.index(fold.regularisation)]
        axes.plot(fold.regularisation, best, "o", color="#8a8f98", markersize=4)
    mean = np.mean([fold.curve for fold in result.folds], axis=0)
    axes.plot(result.path, mean, color="#2f7ed8", linewidth=2.0, label="mean of the folds")
    axes.axvline(result.best, color="#2f7ed8", linewidth=0.8, linestyle="dashed", label=f"chosen: {result.best:g}")
    axes.set(xlabel="regularisation", ylabel=f"{result.measure} on the validation queries", xscale="log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, bbox_inches="tight", facecolor="white")
    return buffer.getvalue()
