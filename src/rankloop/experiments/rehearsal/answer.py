"""Rehearse on a log: learners are played in worlds drawn from the posterior of its users, beside today's order."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from rankloop.advice import choices
from rankloop.click_models.fit import BEST_MODEL, fit_users
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, spec_of
from rankloop.core.statistics import student_quantile
from rankloop.core.types import Floats, Problem, Query
from rankloop.engine import Engine, Here
from rankloop.experiments.rehearsal.attraction import Attraction, attraction_of, standing_at, with_today
from rankloop.experiments.rehearsal.log_view import RehearsalLog, rehearsal_log
from rankloop.experiments.rehearsal.play import N_CURVE_POINTS, N_LATE_POINTS, RehearsalArm, rehearse_arm
from rankloop.experiments.rehearsal.result import (
    MIN_GAIN,
    PER_PAGES,
    TODAY_ARM,
    ArmResult,
    Rehearsal,
    RehearsalGain,
    Word,
)
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.list_log import ListLog, ShownList
from rankloop.logs.reader import lists_in
from rankloop.logs.service_export import kind_of
from rankloop.logs.table_reader import Given

MAX_PAGES = 2000  # different pages of the log that are played
MAX_NUMBER_LEARNERS = 3  # learners on plain numbers: the first choices of the advice
MIN_CHOOSING_WORLDS = 2
NUMBER_KINDS = ("number", "flag")


def rehearse(
    log: Given | ListLog,
    model: str = BEST_MODEL,
    *,
    schema: Schema | None = None,
    pages: int = 3000,
    seeds: int = 5,
    seed: int = 0,
    learners: Sequence[str] = (),
    engine: Engine | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
    **reading: Any,
) -> Rehearsal:
    """Play learners against the users of a log, and compare them with today's order on the same pages.

    Every world is a draw from the posterior of the fitted users: examination from its estimate, attraction from what
    fields and clicks leave open. Intervals are for one further world, such as the true one. The learner is chosen in
    other worlds than those that judge it.

    Args:
      log: A log of lists, or anything that `read_log` reads as one.
      model: The click model of the users; the best on held-out sessions unless given.
      schema: What the columns are; guessed unless given.
      pages: How many pages each learner is played for.
      seeds: How many worlds judge; half as many more choose the learner.
      seed: Of every draw.
      learners: Played instead of those that the advice names.
      engine: Where learners are played, which does not change the answer.
      progress: Called with the number of finished learners, and of all.
      **reading: Arguments of `read_log`, such as columns.

    Raises:
      InvalidInput: If there are too few pages or seeds, or the log does not say which item is which.
    """
    if seeds < 2 or pages < N_CURVE_POINTS:
        raise InvalidInput(f"a rehearsal needs at least 2 seeds and {N_CURVE_POINTS} pages, got {seeds} and {pages}")
    shown = rehearsal_log(lists_in(log, **reading), schema)
    users = fit_users(shown.pages, model, folds=3, seed=seed)
    posterior = attraction_of(shown, users, seed)
    arms = arms_of(shown, posterior, pages, seeds + max(MIN_CHOOSING_WORLDS, seeds // 2), seed, learners)
    finished = count(1)
    base, *outcomes = (engine or Here()).map(
        arms, rehearse_arm, lambda index, outcome: progress(next(finished), len(arms))
    )
    measures, results, choosing_gains = tuple(shown.worth), [], []
    for arm, outcome in zip(arms[1:], outcomes):
        late = (outcome.shown - base.shown)[:, -N_LATE_POINTS:].mean(axis=1)
        learned = outcome.learned - base.learned
        parts = {
            "late": late,
            "learned": learned,
            "overall": (outcome.shown - base.shown).mean(axis=1),
            "exploration": late - learned,
        }
        gains = {part: _gains(by_world[:seeds], measures) for part, by_world in parts.items()}
        spec, curve = spec_of(build(arm.learner, "learner")), PER_PAGES * outcome.shown[:seeds]
        results.append(ArmResult(name=arm.name, learner=spec, curve=curve, refused=outcome.refused, **gains))
        choosing_gains.append(float(late[seeds:, 0].mean()))
    # The arm that the other worlds choose is taken where the judging worlds show a gain.
    word: Word = "no gain"
    chosen, take = results[int(np.argmax(choosing_gains))], ""
    needed = PER_PAGES * MIN_GAIN * float(base.learned[:, 0].mean())
    if users.examination.evidence == "none" and len(users.examination.curve) > 1:
        word = "cannot tell"
    elif chosen.late["clicks"].low > 0.0 and chosen.late["clicks"].mean > needed:
        word, take = "take", chosen.name
    return Rehearsal(
        log=shown.name,
        word=word,
        take=take,
        measures=measures,
        today=dict(zip(measures, (PER_PAGES * base.learned[:seeds].mean(axis=0)).tolist())),
        best=_gains((base.best - base.shown)[:seeds, -N_LATE_POINTS:].mean(axis=1), measures),
        arms=tuple(results),
        users=users,
        fields_matter=posterior.fields_matter,
        pairs_matter=float(np.ptp(posterior.fitted.attraction / posterior.pair_mean)) > 1e-3,
        schema=shown.schema,
        horizon=pages,
        n_seeds=seeds,
        notes=(*shown.notes, *users.notes),
    )


def _gains(by_world: Floats, measures: Sequence[str]) -> dict[str, RehearsalGain]:
    """Return by measure the mean over worlds per 1,000 pages, and the 95 % interval of one further world."""
    values, n = PER_PAGES * by_world, len(by_world)
    half = student_quantile(0.975, n - 1) * values.std(axis=0, ddof=1) * np.sqrt(1.0 + 1.0 / n)
    mean = values.mean(axis=0)
    ends = zip(mean.tolist(), (mean - half).tolist(), (mean + half).tolist())
    return {measure: RehearsalGain(*gain) for measure, gain in zip(measures, ends)}


def arms_of(
    log: RehearsalLog, posterior: Attraction, pages: int, n_worlds: int, seed: int, learners: Sequence[str] = ()
) -> list[RehearsalArm]:
    """Return today's order, and an arm for each learner that fits what items have.

    Args:
      log: The log.
      posterior: Of its users.
      pages: How many pages are played.
      n_worlds: How many worlds are drawn.
      seed: Of the draws.
      learners: Those that are played; by default those of the advice.
    """
    chosen = np.sort(np.random.default_rng(seed).permutation(log.pages.n_pages)[:MAX_PAGES])
    lists = [log.lists[page] for page in chosen.tolist()]
    rows = np.concatenate([np.arange(log.pages.offsets[page], log.pages.offsets[page + 1]) for page in chosen.tolist()])
    sizes = np.diff(log.pages.offsets)[chosen]
    worlds = [posterior.draw(np.random.default_rng([seed, number])) for number in range(n_worlds)]
    base = RehearsalArm(
        name=TODAY_ARM,
        learner="",
        queries=(),
        problem=Problem(0),
        users=[users for _, users in worlds],
        attraction=np.array([attraction[rows] for attraction, _ in worlds]),
        worth=np.column_stack(list(log.worth.values()))[rows],
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        horizon=pages,
    )
    today = [standing_at(page, page.position.astype(np.float64)) for page in lists]
    schema, shown = with_today(log.schema), int(sizes.max())
    encoder = Encoder(schema)
    queries = [page.query(encoder) for page in today]
    seen_as = [("fields", learners or _advised("fields"), queries, schema.problem(shown=shown))]
    names = [name for name, kind in schema.features.items() if kind_of(kind) in NUMBER_KINDS]
    if len(names) > 1:
        problem = Problem(len(names), shown=shown, feature_names=tuple(names))
        number_learners = learners or _advised("features")[:MAX_NUMBER_LEARNERS]
        seen_as.append(("numbers", number_learners, _plain_queries(today, names), problem))
    arms = [base]
    for items, chosen_learners, pages_seen, problem in seen_as:
        for learner in chosen_learners:
            name = f"{kind_of(build(learner, 'learner'))} on {items}"
            arms.append(base._replace(name=name, learner=learner, queries=pages_seen, problem=problem))
    return arms


def _advised(items: str) -> list[str]:
    return list(dict.fromkeys(row.use for row in choices("clicks", items) if row.learner is not None))


def _plain_queries(lists: Sequence[ShownList], names: Sequence[str]) -> list[Query]:
    """Return numbers on one scale: mean 0 and deviation 1 over the log, the mean where one is missing."""

    def number(value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            return float("nan")

    tables = [np.array([[number(row.get(name)) for name in names] for row in page.rows]) for page in lists]
    everything = np.concatenate(tables)
    mean, scale = np.nanmean(everything, axis=0), np.maximum(np.nanstd(everything, axis=0), 1e-9)
    scaled = [np.ascontiguousarray(np.nan_to_num((table - mean) / scale)) for table in tables]
    return [Query(page.query_id, table, np.empty(0)) for page, table in zip(lists, scaled)]
