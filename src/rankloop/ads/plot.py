"""The estimates of several policies as a picture."""

from __future__ import annotations

from pathlib import Path

from rankloop.evaluation.judgement import CURRENT, Judgement
from rankloop.evaluation.overlap import is_off_balance

GREY = "#8a8f98"


def plot_judgement(judgement: Judgement, path: Path) -> None:
    """A dot for each policy's estimate and a line down to its lower bound, the current one dashed across.

    Where the log cannot tell, the dot is hollow and no bound is drawn.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names, unit = list(judgement.estimates), judgement.unit
    figure = Figure(figsize=(7.2, 0.6 * len(names) + 1.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, name in enumerate(names):
        found = judgement.estimates[name]
        low, value = unit.scale * max(0.0, found.lower), unit.scale * found.value
        if is_off_balance(found.overlap):
            axes.plot([value], [place], marker="o", markerfacecolor="none", color=GREY)
            axes.annotate("the log cannot tell", (value, place), xytext=(9, -4), textcoords="offset points", color=GREY)
            continue
        axes.plot([low, value], [place, place], color="#2f7ed8", linewidth=2.5)
        axes.plot([low], [place], marker="|", markersize=12, color="#2f7ed8")
        axes.plot([value], [place], marker="o", color="#2f7ed8")
    axes.axvline(unit.scale * judgement.estimates[CURRENT].value, color=GREY, linestyle="dashed", linewidth=1.0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0.0)
    axes.set_xlabel(f"{unit.name}; the line ends at the {judgement.estimates[CURRENT].level:.0%} lower bound")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160, facecolor="white")
