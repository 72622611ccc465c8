"""Fit click models to a log, and choose one by visits that were held out."""

import json
import os
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from rankloop.click_models.base import ClickModel
from rankloop.click_models.examination import EVIDENCE_WORDS, Examination, estimate_examination
from rankloop.click_models.models import MODELS
from rankloop.core.errors import InvalidInput
from rankloop.core.files import check_picture
from rankloop.core.types import Bools, Floats, Ints
from rankloop.engine import Engine, Here
from rankloop.logs.list_log import ClickArrays, ListLog
from rankloop.logs.table_reader import Given

BEST_MODEL = "best"
BLUE, GREY = "#2f7ed8", "#8a8f98"
N_FOLDS = 5
Progress = Callable[[int, int], None]


class HeldOutFit(NamedTuple):
    """The fit of a model to visits that it was not fitted to."""

    log_likelihood: float  # of a page, on average
    perplexity: float  # on average over positions
    by_position: Floats
    by_page: Floats  # log-likelihood


class UserFit(NamedTuple):
    """The chosen model fitted to the log, how well all that were tried predict held-out visits, and examination."""

    fitted: ClickModel
    held_out: dict[str, HeldOutFit]  # by model
    examination: Examination  # the shared estimate
    notes: tuple[str, ...]  # a sentence each
    n_pages: int
    n_pairs: int  # (query, item)
    n_clicks: int
    columns: str = ""  # what was taken for what; empty for the log of a service

    @property
    def spec(self) -> dict[str, Any]:
        """The users as a spec that `build` and an experiment's `feedback` take."""
        return self.fitted.spec()

    def to_toml(self) -> str:
        """Return the users as the value of `feedback` in an experiment."""
        values = (f"{name} = {json.dumps(value)}" for name, value in self.spec.items())
        return "feedback = { " + ", ".join(values) + " }\n"

    def __str__(self) -> str:
        lines = [self.columns] if self.columns else []
        lines += [f"{self.n_pages:,} pages, {self.n_pairs:,} items of queries, {self.n_clicks:,} clicks", ""]
        lines += ["Click models, on held-out visits (perplexity 1: every click foreseen; *: chosen)"]
        lines += [f"{'model':<10}{'log-likelihood of a page':>26}{'perplexity':>12}"]
        for name, judged in self.held_out.items():
            label = name + " *" * (name == self.fitted.name)
            lines.append(f"{label:<10}{judged.log_likelihood:>26.4f}{judged.perplexity:>12.4f}")
        return "\n".join([*lines, "", str(self.examination), "", "As users of an experiment:", self.to_toml()])

    def to_json(self) -> dict[str, Any]:
        """Return the answer for programs."""
        held_out = {
            name: {
                "log_likelihood": judged.log_likelihood,
                "perplexity": judged.perplexity,
                "perplexity_by_position": judged.by_position.tolist(),
            }
            for name, judged in self.held_out.items()
        }
        return {
            "pages": self.n_pages,
            "pairs": self.n_pairs,
            "clicks": self.n_clicks,
            "model": self.fitted.name,
            "held_out": held_out,
            "examination": self.examination.to_json(),
            "notes": self.notes,
            "users": self.spec,
            "columns": self.columns,
        }

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the examination of each position and the perplexity of each model into a PNG, SVG or PDF file."""
        from matplotlib.figure import Figure

        check_picture(path)
        figure = Figure(figsize=(9.0, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        examined, (low, high) = self.examination.curve, self.examination.interval
        numbers = np.arange(1, len(examined) + 1)
        left.fill_between(numbers, low, np.minimum(high, 2.0), color=BLUE, alpha=0.15, linewidth=0.0)
        left.plot(numbers, examined, marker="o", color=BLUE)
        left.set(xlabel="position", ylim=(0.0, 1.05), title="examination relative to position 1 (95 %)")
        for name, judged in self.held_out.items():
            chosen = name == self.fitted.name
            positions = np.arange(1, len(judged.by_position) + 1)
            right.plot(positions, judged.by_position, color=BLUE if chosen else GREY, linewidth=2.0 if chosen else 1.0)
            right.annotate(name, (positions[-1], judged.by_position[-1]), xytext=(4, -3), textcoords="offset points")
        right.set(xlabel="position", title="perplexity on held-out visits (1: foreseen)")
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, dpi=160, facecolor="white")


def fit_users(
    log: Given | ListLog | ClickArrays,
    model: str = BEST_MODEL,
    *,
    by_item: bool = False,
    folds: int = N_FOLDS,
    seed: int = 0,
    engine: Engine | None = None,
    progress: Progress = lambda done, of: None,
    **reading: Any,
) -> UserFit:
    """Fit click models to a log: how positions are examined, what attracts, when users stop.

    Where several models are tried, the one that finds held-out pages most probable is taken; a simpler one, where it is
    less than one standard error behind.

    Args:
      log: A log of lists, its arrays, or anything that `read_log` reads as one.
      model: pbm, cascade, dcm, sdbn, dbn, ubm, or the best of them on held-out visits.
      by_item: Let an item attract alike whatever the query was: where queries seldom repeat.
      folds: Parts of the visits, each held out once.
      seed: Decides which visits are in which part.
      engine: Where the folds are fitted, which does not change the answer; by default in this process.
      progress: Is called with the number of finished fits and that of all.
      **reading: Arguments of `read_log`, such as columns.

    Raises:
      InvalidInput: If there is no such model, the log has no click or only one visit, or does not tell items apart.
    """
    if isinstance(log, ClickArrays):
        pages, columns = log, ""
    else:
        from rankloop.logs.reader import lists_in  # simulated users need no reader

        lists = lists_in(log, **reading)
        read_columns = "" if lists.export is not None else str(lists.columns)
        pages, columns = lists.clicks(), "\n".join(filter(None, [read_columns, *(f"note: {n}" for n in lists.notes)]))
    pages = pages.by_item() if by_item else pages
    names = list(MODELS) if model == BEST_MODEL else [model]
    if names[0] not in MODELS:
        raise InvalidInput(f"a model is one of {', '.join(MODELS)} or best, not {model!r}")
    if not pages.clicked.any():
        raise InvalidInput("the log has no click, so no click model can be fitted")
    n_visits = int(pages.session.max()) + 1
    if n_visits < 2:
        raise InvalidInput("the log has only one visit; at least two are needed, one to fit and one to evaluate")
    n_parts = min(folds, n_visits)
    part = (np.random.default_rng(seed).permutation(n_visits) % n_parts)[pages.session]
    tasks = [_Fold(pages, name, part == number) for name in names for number in range(n_parts)]
    steps, finished = len(tasks) + 1, count(1)
    judged = (engine or Here()).map(tasks, _judge_fold, lambda index, result: progress(next(finished), steps))
    starts = range(0, len(judged), n_parts)
    held_out = {name: _held_out(part, judged[start : start + n_parts]) for name, start in zip(names, starts)}
    examination = estimate_examination(pages)
    # The first model that is less than one standard error behind the best.
    best = max(held_out.values(), key=lambda fit: fit.log_likelihood)
    behind = ((name, best.by_page - fit.by_page) for name, fit in held_out.items())
    chosen = MODELS[next(name for name, lost in behind if lost.mean() <= lost.std() / np.sqrt(len(lost)))]
    fitted = chosen.fit(pages, table=chosen.examination_table(pages, examination))
    progress(steps, steps)
    notes = []
    if examination.evidence == "none" and pages.n_positions > 1:
        notes.append(f"examination is {EVIDENCE_WORDS['none']}")
    if pages.n_repeated:
        notes.append(f"{pages.n_repeated:,} rows repeat another one and were left out")
    if np.ptp(fitted.attraction) < 1e-4 and pages.n_pairs > 1:
        notes.append("items do not differ in clicks by more than chance: all are taken to attract alike")
    n_clicks = int(pages.clicked.sum())
    return UserFit(fitted, held_out, examination, tuple(notes), pages.n_pages, pages.n_pairs, n_clicks, columns)


class _Fold(NamedTuple):
    """A model to fit to some pages, and to judge by the others."""

    log: ClickArrays
    model: str
    out: Bools  # by page: it is held out


def _judge_fold(fold: _Fold) -> tuple[Floats, Floats, Floats]:
    """Return the log-likelihood of each held-out page, and the surprise at each position with the rows behind it."""
    log = fold.log
    fitted = MODELS[fold.model].fit(log.pages(np.flatnonzero(~fold.out)))
    judges = log.pages(np.flatnonzero(fold.out))
    bits = np.bincount(judges.position, fitted.surprises(judges), log.n_positions).astype(np.float64)
    counts = np.bincount(judges.position, minlength=log.n_positions).astype(np.float64)
    return fitted.log_likelihood(judges), bits, counts


def _held_out(part: Ints, folds: list[tuple[Floats, Floats, Floats]]) -> HeldOutFit:
    by_page, bits, counts = np.zeros(len(part)), np.zeros(1), np.zeros(1)
    for number, (log_likelihoods, fold_bits, fold_counts) in enumerate(folds):
        by_page[part == number] = log_likelihoods
        bits, counts = bits + fold_bits, counts + fold_counts
    by_position = 2.0 ** (bits / np.maximum(counts, 1.0))
    return HeldOutFit(float(by_page.mean()), float(by_position[counts > 0].mean()), by_position, by_page)
