"""Fitting click models to a log, and choosing one by visits that it has not seen."""

from collections.abc import Callable
from itertools import count
from typing import NamedTuple, get_args

import numpy as np

from rankloop.click_models.base import ALIKE, Fitted, Prior
from rankloop.click_models.cascade import fit_cascade
from rankloop.click_models.dbn import fit_dbn
from rankloop.click_models.dcm import fit_dcm
from rankloop.click_models.likelihood import log_likelihood, prior_of_log, surprises
from rankloop.click_models.page_log import PageLog
from rankloop.click_models.pbm import fit_pbm
from rankloop.click_models.sdbn import fit_sdbn
from rankloop.click_models.ubm import fit_ubm
from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.engine import Engine, Here
from rankloop.simulate.users.fitted_users import ModelName

MODELS: dict[str, Callable[[PageLog, Prior], Fitted]] = {  # the simplest first
    "cascade": fit_cascade,
    "pbm": fit_pbm,
    "dcm": fit_dcm,
    "sdbn": fit_sdbn,
    "dbn": fit_dbn,
    "ubm": fit_ubm,
}
BEST = "best"
FOLDS = 5
HERE = Here()
MIN_MOVED = 0.01  # a smaller share of rows whose pairs stand elsewhere too tells nothing of positions
FIXED_ORDER = (
    "hardly any item stands at two positions for the same query, so a position that is not looked at and an item that "
    "nobody wants cannot be told apart: these numbers are a guess"
)
Progress = Callable[[int, int], None]


class HeldOut(NamedTuple):
    """How well a model foresees visits that it was not fitted to."""

    log_likelihood: float  # of a page, on average
    perplexity: float  # on average over positions
    by_position: Floats
    by_page: Floats  # log-likelihood


class UserFit(NamedTuple):
    """The model that was asked for or chosen, fitted to the whole log, and how all that were tried foresee clicks."""

    fitted: Fitted
    held_out: dict[str, HeldOut]
    notes: tuple[str, ...]


def fit_users(
    log: PageLog,
    model: str = BEST,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    engine: Engine = HERE,
    progress: Progress = lambda done, of: None,
) -> UserFit:
    """Fit one model, or all of them and take the one that finds held-out pages most probable; folds go by visit.

    A simpler model is preferred where it is less than one standard error behind. The `engine` says where the folds are
    fitted, which does not change the answer.
    """
    names = list(MODELS) if model == BEST else [model]
    if model != BEST and model not in get_args(ModelName):
        raise InvalidInput(f"a model is one of {', '.join(MODELS)} or best, not {model!r}")
    if not log.clicked.any():
        raise InvalidInput("the log has no click, so it tells nothing of who clicked it")
    parts = _folds(log, folds, seed)
    tasks = [FoldTask(log, name, out) for name in names for out in parts]
    steps, finished = len(tasks) + 1, count(1)
    judged = engine.map(tasks, judged_fold, lambda index, result: progress(next(finished), steps))
    folded = [judged[first : first + len(parts)] for first in range(0, len(tasks), len(parts))]
    held_out = {name: _held_out(log, parts, own) for name, own in zip(names, folded)}
    fitted = fit(log, _simplest_of_the_best(held_out))
    progress(steps, steps)
    return UserFit(fitted, held_out, tuple(_notes(log, fitted)))


def _simplest_of_the_best(held_out: dict[str, HeldOut]) -> str:
    best = max(held_out.values(), key=lambda one: one.log_likelihood)
    for name, one in held_out.items():
        behind = best.by_page - one.by_page
        if behind.mean() <= behind.std() / np.sqrt(len(behind)):
            return name
    return next(iter(held_out))


def fit(log: PageLog, model: str, prior: Prior | None = None) -> Fitted:
    """One model; the belief about pairs is as strong as they are alike, unless given."""
    if prior is None:
        prior = prior_of_log(log, all_alike(log, model))
    return MODELS[model](log, prior)


def all_alike(log: PageLog, model: str, mean: Floats | None = None) -> Fitted:
    """The model in which pairs differ by nothing, or only as `mean` says."""
    if mean is not None:
        return MODELS[model](log, Prior(mean, ALIKE))
    one = log._replace(pair=np.zeros_like(log.pair), items=("",), query_ids=("",))
    fitted = MODELS[model](one, Prior(np.array([0.5]), 0.0))
    attraction, satisfaction = (np.repeat(part, log.n_pairs) for part in (fitted.attraction, fitted.satisfaction))
    return fitted._replace(attraction=attraction, satisfaction=satisfaction)


def _folds(log: PageLog, folds: int, seed: int) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """By page: whether a fold holds it out."""
    n_visits = int(log.session.max()) + 1
    if n_visits < 2:
        raise InvalidInput("the log is of one visit; there must be at least two, to fit one and be judged by the other")
    number = np.random.default_rng(seed).permutation(n_visits) % min(folds, n_visits)
    return [number[log.session] == fold for fold in range(min(folds, n_visits))]


class FoldTask(NamedTuple):
    """A model to fit to some pages, and to judge by the others."""

    log: PageLog
    model: str
    out: np.ndarray[tuple[int], np.dtype[np.bool_]]  # by page: whether it is held out


def judged_fold(task: FoldTask) -> tuple[Floats, Floats, Floats]:
    """The log-likelihood of each page that was held out; the surprise at each position, and how often it was seen."""
    log, out = task.log, task.out
    fitted = _as_wide(fit(log.pages(np.flatnonzero(~out)), task.model), log.n_positions)
    judges = log.pages(np.flatnonzero(out))
    own, n_positions = judges.position, log.n_positions
    bits: Floats = np.bincount(own, surprises(judges, fitted), n_positions).astype(np.float64)
    return log_likelihood(judges, fitted), bits, np.bincount(own, minlength=n_positions).astype(np.float64)


def _held_out(
    log: PageLog,
    parts: list[np.ndarray[tuple[int], np.dtype[np.bool_]]],
    judged: list[tuple[Floats, Floats, Floats]],
) -> HeldOut:
    by_page, surprise, counts = np.zeros(log.n_pages), np.zeros(log.n_positions), np.zeros(log.n_positions)
    for out, (own, bits, seen) in zip(parts, judged):
        by_page[out] = own
        surprise += bits
        counts += seen
    by_position = 2.0 ** (surprise / np.maximum(counts, 1.0))
    return HeldOut(float(by_page.mean()), float(by_position[counts > 0].mean()), by_position, by_page)


def _as_wide(fitted: Fitted, n_positions: int) -> Fitted:
    """With a row for every position of the whole log: those beyond the part it was fitted to are as its last."""
    missing = n_positions - len(fitted.examination)
    if missing <= 0:
        return fitted
    table = np.concatenate([fitted.examination, np.repeat(fitted.examination[-1:], missing, axis=0)])
    return fitted._replace(examination=table, stop=np.append(fitted.stop, np.repeat(fitted.stop[-1:], missing)))


def _notes(log: PageLog, fitted: Fitted) -> list[str]:
    notes = []
    if fitted.browsing and log.n_positions > 1 and log.moved_share() < MIN_MOVED:
        notes.append(FIXED_ORDER)
    if log.n_repeated:
        notes.append(f"{log.n_repeated:,} rows repeat another one and were left out")
    if np.ptp(fitted.attraction) < 1e-4 and log.n_pairs > 1:
        notes.append("items do not differ in clicks by more than chance: all are taken to attract alike")
    return notes
