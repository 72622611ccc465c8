"""Fitting click models to a log, and choosing one by visits that it has not seen."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np

from rankloop.click_models.base import ClickModel
from rankloop.click_models.cascade import CascadeModel, DependentClickModel, SimplifiedDbnModel
from rankloop.click_models.dbn import DbnModel
from rankloop.click_models.kernels import ClickRows
from rankloop.click_models.pbm import PositionBasedModel
from rankloop.click_models.ubm import UserBrowsingModel
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.engine import Engine, Here
from rankloop.logs.list_log import ClickArrays

_SIMPLEST_FIRST: tuple[type[ClickModel], ...] = (
    CascadeModel,
    PositionBasedModel,
    DependentClickModel,
    SimplifiedDbnModel,
    DbnModel,
    UserBrowsingModel,
)
MODELS: dict[str, type[ClickModel]] = {model.name: model for model in _SIMPLEST_FIRST}
BEST = "best"
N_FOLDS = 5
MIN_MOVED_SHARE = 0.01  # a smaller share of rows whose pairs stand elsewhere too tells nothing of positions
FIXED_ORDER = (
    "hardly any item stands at two positions for the same query, so a position that is not looked at and an item that "
    "nobody wants cannot be told apart: these numbers are a guess"
)
Progress = Callable[[int, int], None]
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


class HeldOutFit(NamedTuple):
    """How well a model foresees visits that it was not fitted to."""

    log_likelihood: float  # of a page, on average
    perplexity: float  # on average over positions
    by_position: Floats
    by_page: Floats  # log-likelihood


class UserFit(NamedTuple):
    """The chosen model fitted to the whole log, and how well all that were tried foresee clicks."""

    fitted: ClickModel
    held_out: dict[str, HeldOutFit]
    notes: tuple[str, ...]


def fit_users(
    log: ClickArrays,
    model: str = BEST,
    *,
    folds: int = N_FOLDS,
    seed: int = 0,
    engine: Engine | None = None,
    progress: Progress = lambda done, of: None,
) -> UserFit:
    """Fit one model, or all of them and take the one that finds held-out pages most probable.

    A simpler model is preferred where it is less than one standard error behind.

    Args:
      log: What was shown and clicked.
      model: The name of a model, or `best`.
      folds: Parts of the visits, each held out once.
      seed: Decides which visits are in which part.
      engine: Where the folds are fitted, which does not change the answer; by default in this process.
      progress: Is called with the number of finished fits and that of all.

    Returns:
      The fitted model, what held-out visits say of all that were tried, and notes for the reader.

    Raises:
      InvalidInput: If there is no such model, or the log has no click or only one visit.
    """
    names = list(MODELS) if model == BEST else [model]
    if model != BEST and model not in MODELS:
        raise InvalidInput(f"a model is one of {', '.join(MODELS)} or best, not {model!r}")
    if not log.clicked.any():
        raise InvalidInput("the log has no click, so it tells nothing of who clicked it")
    parts = _folds(log, folds, seed)
    tasks = [FoldTask(log, name, out) for name in names for out in parts]
    steps, finished = len(tasks) + 1, count(1)
    judged = (engine or Here()).map(tasks, judge_fold, lambda index, result: progress(next(finished), steps))
    by_model = [judged[first : first + len(parts)] for first in range(0, len(tasks), len(parts))]
    held_out = {name: _held_out(log, parts, folds_of_it) for name, folds_of_it in zip(names, by_model)}
    fitted = MODELS[_simplest_of_the_best(held_out)].fit(log)
    progress(steps, steps)
    return UserFit(fitted, held_out, tuple(_notes(log, fitted)))


def examined_by_position(model: ClickModel) -> Floats:
    """Return how likely each position is examined: by the model's table, or on a page of middling items."""
    n_positions = len(model.examination)
    if model.browsing:
        return model.examination[:, 0]
    middle = np.array([np.average(model.attraction, weights=model.evidence.examined + 1e-9)])
    levels, satisfaction = model.levels()
    middling = replace(model, attraction=middle, satisfaction=np.interp(middle, levels, satisfaction))
    none = np.zeros(n_positions)
    page = ClickRows(np.array([0, n_positions]), none.astype(np.int64), np.arange(n_positions), none)
    return middling.probabilities(page).examined


def _simplest_of_the_best(held_out: dict[str, HeldOutFit]) -> str:
    best = max(held_out.values(), key=lambda fit: fit.log_likelihood)
    for name, fit in held_out.items():
        behind = best.by_page - fit.by_page
        if behind.mean() <= behind.std() / np.sqrt(len(behind)):
            return name
    return next(iter(held_out))


def _folds(log: ClickArrays, folds: int, seed: int) -> list[Mask]:
    """By page: whether a fold holds it out."""
    n_visits = int(log.session.max()) + 1
    if n_visits < 2:
        raise InvalidInput("the log is of one visit; there must be at least two, to fit one and be judged by the other")
    number = np.random.default_rng(seed).permutation(n_visits) % min(folds, n_visits)
    return [number[log.session] == fold for fold in range(min(folds, n_visits))]


class FoldTask(NamedTuple):
    """A model to fit to some pages, and to judge by the others."""

    log: ClickArrays
    model: str
    out: Mask  # by page: whether it is held out


class JudgedFold(NamedTuple):
    """The log-likelihood of each held-out page, and the surprise at each position with the rows behind it."""

    by_page: Floats
    bits: Floats
    counts: Floats


def judge_fold(task: FoldTask) -> JudgedFold:
    """Fit a model to the pages of the other folds, and judge it by those of this one."""
    log, out = task.log, task.out
    fitted = MODELS[task.model].fit(log.pages(np.flatnonzero(~out)))
    judges = log.pages(np.flatnonzero(out))
    bits = np.bincount(judges.position, fitted.surprises(judges), log.n_positions).astype(np.float64)
    counts = np.bincount(judges.position, minlength=log.n_positions).astype(np.float64)
    return JudgedFold(fitted.log_likelihood(judges), bits, counts)


def _held_out(log: ClickArrays, parts: list[Mask], folds: list[JudgedFold]) -> HeldOutFit:
    by_page = np.zeros(log.n_pages)
    for out, fold in zip(parts, folds):
        by_page[out] = fold.by_page
    bits, counts = sum(fold.bits for fold in folds), np.asarray(sum(fold.counts for fold in folds))
    by_position = 2.0 ** (bits / np.maximum(counts, 1.0))
    return HeldOutFit(float(by_page.mean()), float(by_position[counts > 0].mean()), by_position, by_page)


def _notes(log: ClickArrays, fitted: ClickModel) -> list[str]:
    notes = []
    if fitted.browsing and log.n_positions > 1 and log.moved_share() < MIN_MOVED_SHARE:
        notes.append(FIXED_ORDER)
    if log.n_repeated:
        notes.append(f"{log.n_repeated:,} rows repeat another one and were left out")
    if np.ptp(fitted.attraction) < 1e-4 and log.n_pairs > 1:
        notes.append("items do not differ in clicks by more than chance: all are taken to attract alike")
    return notes
