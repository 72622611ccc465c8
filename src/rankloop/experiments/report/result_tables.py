"""Final values of an experiment as tables for a paper: CSV for programs, LaTeX for the text."""

import csv
import io
import math
from pathlib import Path

from rankloop.core.files import atomic_write
from rankloop.core.registry import build
from rankloop.experiments.analysis.curves import Curves, SeedMean, estimate, values_at
from rankloop.experiments.spec.model import CEILING

QUANTITIES = ("average", "recent", "predicted", "new_queries", "regret")
LATEX_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def final_values(curves: Curves) -> list[dict[str, str | float | int]]:
    """Return one row per stream, arm, measure and quantity, with mean and standard error at the last checkpoint."""
    return [
        {"stream": stream, "arm": arm, "measure": measure, "quantity": quantity}
        | estimate(values[:, -1])._asdict()
        | {"seeds": len(values)}
        for stream in curves.streams
        for arm in curves.arms
        for measure in curves.measures
        for quantity in QUANTITIES
        if (values := curves.of(stream, arm, measure, quantity)) is not None
    ]


def csv_table(curves: Curves) -> str:
    """Return the final values as CSV; the error is empty where there is one seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["stream", "arm", "measure", "quantity", "mean", "standard_error", "seeds"])
    for row in final_values(curves):
        writer.writerow(["" if isinstance(v, float) and math.isnan(v) else v for v in row.values()])
    return text.getvalue()


def latex_table(curves: Curves) -> str:
    """Return a LaTeX table of the averages over all rounds: a row per arm, a column per stream and measure.

    The table needs the package booktabs. The best arm of a column is bold; the ceiling does not compete.
    """
    columns = [(stream, measure) for stream in curves.streams for measure in curves.measures]
    cells = {
        (arm, column): estimate(values_at(curves, arm, column[1], "average", column[0]))
        for arm in curves.arms
        for column in columns
    }
    winners = {column: _best_arm(curves, column, cells) for column in columns}
    titles = [measure if len(curves.streams) == 1 else f"{stream}, {measure}" for stream, measure in columns]
    lines = [
        f"\\begin{{tabular}}{{l{'r' * len(columns)}}}",
        "\\toprule",
        _latex_row(["arm", *titles]),
        "\\midrule",
        *(
            _latex_row([arm], [_latex_cell(cells[arm, column], bold=winners[column] == arm) for column in columns])
            for arm in curves.arms
        ),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    seeds = len(curves.seeds)
    comment = (
        f"% Mean over {curves.experiment.horizon} rounds and {seeds} seed{'s' if seeds != 1 else ''}, ± standard error."
    )
    return "\n".join([comment, *lines]) + "\n"


def write_result_tables(folder: Path, curves: Curves) -> None:
    """Write `results.csv` and `results.tex`.

    Args:
      folder: The folder of the results.
      curves: The values of the experiment.
    """
    atomic_write(folder / "results.csv", csv_table(curves))
    atomic_write(folder / "results.tex", latex_table(curves))


def _best_arm(curves: Curves, column: tuple[str, str], cells: dict[tuple[str, tuple[str, str]], SeedMean]) -> str:
    sign = 1.0 if build(column[1], "measure").higher_is_better else -1.0
    arms = [arm for arm in curves.arms if arm != CEILING and not math.isnan(cells[arm, column].mean)]
    return max(arms, key=lambda arm: sign * cells[arm, column].mean, default="")


def _latex_cell(value: SeedMean, bold: bool) -> str:
    if math.isnan(value.mean):
        return "--"
    mean, _, error = str(value).replace("−", "-").partition(" ± ")
    shown = f"\\mathbf{{{mean}}}" if bold else mean
    return f"${shown} \\pm {error}$" if error else f"${shown}$"


def _latex_row(texts: list[str], cells: list[str] | None = None) -> str:
    return " & ".join([text.translate(LATEX_ESCAPES) for text in texts] + (cells or [])) + r" \\"
