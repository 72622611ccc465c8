"""Rehearse on a log: learners are played in worlds drawn from the posterior of its users, beside today's order."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from rankloop.advice import choices
from rankloop.click_models.fit import BEST_MODEL, fit_users
from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import build, spec_of
from rankloop.core.session import Session
from rankloop.core.statistics import student_quantile
from rankloop.core.types import Floats, Ints, Problem, Query
from rankloop.engine import Engine, Here
from rankloop.experiments.rehearsal import result
from rankloop.experiments.rehearsal.attraction import TODAY_FIELD, Attraction, RehearsalLog
from rankloop.experiments.rehearsal.result import N_CURVE_POINTS, PER_PAGES, ArmResult, Rehearsal, RehearsalGain, Word
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.learners.wrappers.hashed_weights import with_hashed
from rankloop.logs.columns import number_of
from rankloop.logs.list_log import ListLog
from rankloop.logs.reader import lists_in
from rankloop.logs.service_export import kind_of
from rankloop.logs.table_reader import Given
from rankloop.simulate.users.fitted_users import FittedUsers

MAX_PAGES = 2000  # different pages of the log that are played
MAX_NUMBER_LEARNERS = 3  # learners on plain numbers: the first choices of the advice
MIN_CHOOSING_WORLDS = 2
N_LATE_POINTS = N_CURVE_POINTS // 5  # of a learning curve, at the end: when it has learned
NUMBER_KINDS = ("number", "flag")


class ArmOutcome(NamedTuple):
    """Means per page, by world; the last axis is clicks, purchases, money, as far as the log has them."""

    shown: Floats  # (worlds, blocks, measures), while it learns
    learned: Floats  # (worlds, measures), what its best rankings of the late pages would have earned
    best: Floats  # (worlds, blocks, measures), what the order by true attraction earns on the same pages
    refused: int  # updates that were left out


class RehearsalArm(NamedTuple):
    """An arm: a learner and the pages as it sees them, in today's order."""

    name: str
    learner: Any  # its spec; empty for today's order
    queries: Sequence[Query]  # by page
    problem: Problem  # of the learner
    users: Sequence[dict[str, Any]]  # by world, the spec of its users
    attraction: Floats  # (worlds, rows)
    worth: Floats  # (rows, measures)
    offsets: Ints  # where pages begin, and the number of rows at the end
    horizon: int  # pages that are played


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
    shown = RehearsalLog.of(lists_in(log, **reading), schema)
    users = fit_users(shown.pages, model, folds=3, seed=seed)
    posterior = Attraction.of(shown, users, seed)
    arms = arms_of(shown, posterior, pages, seeds + max(MIN_CHOOSING_WORLDS, seeds // 2), seed, learners)
    finished = count(1)
    base, *outcomes = (engine or Here()).map(arms, rehearse_arm, lambda *_: progress(next(finished), len(arms)))
    measures, results, choosing_gains = tuple(shown.worth), [], []
    for arm, outcome in zip(arms[1:], outcomes):
        late = (outcome.shown - base.shown)[:, -N_LATE_POINTS:].mean(axis=1)
        learned = outcome.learned - base.learned
        overall = (outcome.shown - base.shown).mean(axis=1)
        parts = {"late": late, "learned": learned, "overall": overall, "exploration": late - learned}
        gains = {part: _gains(by_world[:seeds], measures) for part, by_world in parts.items()}
        spec, curve = spec_of(build(arm.learner, "learner")), PER_PAGES * outcome.shown[:seeds]
        results.append(ArmResult(name=arm.name, learner=spec, curve=curve, refused=outcome.refused, **gains))
        choosing_gains.append(float(late[seeds:, 0].mean()))
    # The arm that the other worlds choose is taken where the judging worlds show a gain.
    word: Word = "no gain"
    chosen = results[int(np.argmax(choosing_gains))]
    needed = PER_PAGES * result.MIN_GAIN * float(base.learned[:, 0].mean())
    examination = users.examination
    is_unknown = examination.evidence == "none" and len(examination.curve) > 1
    if is_unknown or any(getattr(examination, name) for name in filter(None, result.UNSUITABLE_LOGS)):
        word = "cannot tell"
    elif chosen.late["clicks"].low > 0.0 and chosen.late["clicks"].mean > needed:
        word = "take"
    return Rehearsal(
        log=shown.name,
        word=word,
        chosen=chosen.name,
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
    lists, pages_played = [log.lists[page] for page in chosen.tolist()], log.pages.pages(chosen)
    rows = np.flatnonzero(np.isin(log.pages.page, chosen))
    worlds = [posterior.draw(np.random.default_rng([seed, number])) for number in range(n_worlds)]
    base = RehearsalArm(
        name=result.TODAY_ARM,
        learner="",
        queries=(),
        problem=Problem(0),
        users=[users for _, users in worlds],
        attraction=np.array([by_row[rows] for by_row, _ in worlds]),
        worth=np.column_stack(list(log.worth.values()))[rows],
        offsets=pages_played.offsets,
        horizon=pages,
    )
    today = [page.with_value(TODAY_FIELD, page.position.astype(np.float64)) for page in lists]
    schema, shown = log.schema.with_feature(TODAY_FIELD, "number"), int(np.diff(pages_played.offsets).max())
    encoder = Encoder(schema)
    queries = [page.query(encoder) for page in today]
    seen_as = [("fields", learners or _advised("fields"), queries, schema.problem(shown=shown))]
    names = [name for name, kind in schema.features.items() if kind_of(kind) in NUMBER_KINDS]
    if len(names) > 1:
        problem = Problem(len(names), shown=shown, feature_names=tuple(names))
        number_learners = learners or _advised("features")[:MAX_NUMBER_LEARNERS]
        # Numbers on one scale: mean 0 and deviation 1 over the log, the mean where one is missing.
        tables = [np.array([[number_of(row.get(name)) for name in names] for row in page.rows]) for page in today]
        everything = np.concatenate(tables)
        mean, scale = np.nanmean(everything, axis=0), np.maximum(np.nanstd(everything, axis=0), 1e-9)
        scaled = [np.ascontiguousarray(np.nan_to_num((table - mean) / scale)) for table in tables]
        plain_queries = [Query(page.query_id, table, np.empty(0)) for page, table in zip(today, scaled)]
        seen_as.append(("numbers", number_learners, plain_queries, problem))
    arms = [base]
    for items, chosen_learners, pages_seen, problem in seen_as:
        for learner in chosen_learners:
            name = f"{kind_of(build(learner, 'learner'))} on {items}"
            arms.append(base._replace(name=name, learner=learner, queries=pages_seen, problem=problem))
    return arms


def _advised(items: str) -> list[str]:
    return list(dict.fromkeys(row.use for row in choices("clicks", items) if row.learner is not None))


def rehearse_arm(arm: RehearsalArm) -> ArmOutcome:
    """Play an arm in every world; two arms meet the same pages in the same world."""
    n_worlds, n_measures = len(arm.users), arm.worth.shape[1]
    shown, best = np.zeros((2, n_worlds, N_CURVE_POINTS, n_measures))
    learned, refused = np.zeros((n_worlds, n_measures)), 0
    for world, spec in enumerate(arm.users):
        users: FittedUsers = build(spec, "feedback")
        pages, others = np.random.SeedSequence(world).spawn(2)
        rng, of_users = np.random.default_rng(pages), np.random.default_rng(others)
        session = None
        if arm.learner:
            learner: AnyLearner = build(arm.learner, "learner")
            session = Session(with_hashed(learner) if arm.problem.n_hashed else learner, arm.problem, world)
        counts = np.zeros(N_CURVE_POINTS)
        for turn in range(arm.horizon):
            page = int(rng.random() * (len(arm.offsets) - 1))
            rows = slice(arm.offsets[page], arm.offsets[page + 1])
            relevance, worth = arm.attraction[world, rows], arm.worth[rows]
            block = turn * N_CURVE_POINTS // arm.horizon
            is_late = block >= N_CURVE_POINTS - N_LATE_POINTS
            ranking = predicted = np.arange(len(relevance))
            if session is not None:
                query = arm.queries[page]
                predicted = session.predict(query) if is_late else predicted
                decision = session.rank(query)
                ranking = decision.ranking
                with suppress(UnstableUpdate):  # counted by the session
                    session.learn(query, decision, users.observe(ranking, relevance, of_users))
            else:
                ideal = np.argsort(-relevance, kind="stable")
                best[world, block] += users.click_probabilities(ideal, relevance) @ worth[ideal]
            shown[world, block] += users.click_probabilities(ranking, relevance) @ worth[ranking]
            counts[block] += 1
            if is_late:
                learned[world] += users.click_probabilities(predicted, relevance) @ worth[predicted]
        pages_in_block = np.maximum(counts, 1)[:, None]
        shown[world], best[world] = shown[world] / pages_in_block, best[world] / pages_in_block
        learned[world] /= max(counts[-N_LATE_POINTS:].sum(), 1.0)
        refused += 0 if session is None else session.refused
    return ArmOutcome(shown, learned, best, refused)
