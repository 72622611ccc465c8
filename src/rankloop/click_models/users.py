"""The users of a log: the click model that fits it best, as users for any experiment."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from rankloop.click_models import fit
from rankloop.click_models.chart import plot_fit
from rankloop.click_models.fit import BEST, N_FOLDS, Progress, UserFit, examined_by_position
from rankloop.engine import Engine
from rankloop.logs.list_log import ListLog
from rankloop.logs.reader import lists_in
from rankloop.logs.table_source import Given


class UserReport(NamedTuple):
    """The click model of a log, and how well each model that was tried predicts held-out sessions."""

    fit: UserFit
    n_pages: int
    n_pairs: int  # items of queries
    n_clicks: int
    columns: str  # which column was taken for what; empty for a service's log

    @property
    def spec(self) -> dict[str, Any]:
        """The users as a spec that `build` and an experiment's `feedback` take."""
        return self.fit.fitted.spec()

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about the fit."""
        return self.fit.notes

    def to_toml(self) -> str:
        """Return the users as the value of `feedback` in an experiment."""
        return (
            "feedback = { " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in self.spec.items()) + " }\n"
        )

    def __str__(self) -> str:
        lines = [self.columns] if self.columns else []
        lines += [f"{self.n_pages:,} pages, {self.n_pairs:,} items of queries, {self.n_clicks:,} clicks", ""]
        lines += ["On visits that were held out", f"{'model':<10}{'log-likelihood of a page':>26}{'perplexity':>12}"]
        for name, judged in self.fit.held_out.items():
            chosen = name + " *" * (name == self.fit.fitted.name)
            lines.append(f"{chosen:<10}{judged.log_likelihood:>26.4f}{judged.perplexity:>12.4f}")
        first = ", ".join(f"{share:.2f}" for share in examined_by_position(self.fit.fitted)[:10])
        return "\n".join([*lines, "", f"examined, first positions: {first}", "", self.to_toml()])

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs."""
        held_out = {
            name: {
                "log_likelihood": judged.log_likelihood,
                "perplexity": judged.perplexity,
                "perplexity_by_position": judged.by_position.tolist(),
            }
            for name, judged in self.fit.held_out.items()
        }
        return {
            "pages": self.n_pages,
            "pairs": self.n_pairs,
            "clicks": self.n_clicks,
            "model": self.fit.fitted.name,
            "held_out": held_out,
            "examined": examined_by_position(self.fit.fitted).tolist(),
            "notes": self.notes,
            "users": self.spec,
            "columns": self.columns,
        }

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the examination of each position and the perplexity of each model into a PNG, SVG or PDF file."""
        plot_fit(self.fit, Path(path))


def fit_users(
    log: Given | ListLog,
    model: str = BEST,
    *,
    by_item: bool = False,
    folds: int = N_FOLDS,
    seed: int = 0,
    engine: Engine | None = None,
    progress: Progress = lambda done, of: None,
    **reading: Any,
) -> UserReport:
    """Fit click models to a log: how positions are examined, what attracts, when users stop.

    Args:
      log: A log of lists, or anything that `read_log` reads as one.
      model: pbm, cascade, dcm, sdbn, dbn, ubm, or the best of them on held-out sessions.
      by_item: Let an item attract alike whatever the query was: where queries seldom repeat.
      folds: Parts of the sessions, each held out once.
      seed: Decides which sessions are in which part.
      engine: Where folds are fitted, which does not change the answer.
      progress: Called with the number of finished fits, and of all.
      **reading: Arguments of `read_log`, such as columns.

    Returns:
      The fitted users, which print as a table.

    Raises:
      InvalidInput: If the log has no click, one session only, or does not say which item is which.
    """
    lists = lists_in(log, **reading)
    pages = lists.clicks().by_item() if by_item else lists.clicks()
    fitted = fit.fit_users(pages, model, folds=folds, seed=seed, engine=engine, progress=progress)
    return UserReport(
        fit=fitted,
        n_pages=pages.n_pages,
        n_pairs=pages.n_pairs,
        n_clicks=int(pages.clicked.sum()),
        columns="" if lists.export is not None else str(lists.columns),
    )
