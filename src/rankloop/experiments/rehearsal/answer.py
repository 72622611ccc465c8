"""The answer of a rehearsal: learners are played against the users of a log, beside today's order."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from rankloop.advice import choices
from rankloop.click_models.fit import BEST, FIXED_ORDER, UserFit, fit_users
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, spec_of
from rankloop.core.types import Floats, Problem, Query
from rankloop.engine import Engine, Here
from rankloop.experiments.rehearsal.attraction import Attraction, attraction_of, standing_at, with_today
from rankloop.experiments.rehearsal.log_view import RehearsalLog, rehearsal_log
from rankloop.experiments.rehearsal.play import BLOCKS, LATE, ArmOutcome, RehearsalArm, rehearse_arm
from rankloop.experiments.rehearsal.result import MIN_GAIN, PER, TODAY, ArmResult, Rehearsal, RehearsalGain, Word
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.list_log import ListLog
from rankloop.logs.reader import lists_in
from rankloop.logs.service_export import kind_of
from rankloop.logs.table_reader import Given

MAX_PAGES = 2000  # different pages of the log that are played
N_OF_FEATURES = 3  # learners on plain numbers: the first choices of the advice
NUMBERS = ("number", "flag")


def rehearse(
    log: Given | ListLog,
    model: str = BEST,
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

    Args:
      log: A log of lists, or anything that `read_log` reads as one.
      model: The click model of the users; the best on held-out sessions unless given.
      schema: What the columns are; guessed unless given.
      pages: How many pages each learner is played for.
      seeds: How many worlds that the log allows, for the intervals.
      seed: Of every draw.
      learners: Played instead of those that the advice names.
      engine: Where learners are played, which does not change the answer.
      progress: Called with the number of finished learners, and of all.
      **reading: Arguments of `read_log`, such as columns.

    Returns:
      Which learner to take, what it would win and what exploring would cost; or that there is nothing to win.

    Raises:
      InvalidInput: If there are too few pages or seeds, or the log does not say which item is which.
    """
    if seeds < 2 or pages < BLOCKS:
        raise InvalidInput(f"a rehearsal needs at least 2 seeds and {BLOCKS} pages, got {seeds} and {pages}")
    shown = rehearsal_log(lists_in(log, **reading), schema)
    users = fit_users(shown.pages, model, folds=3, seed=seed)
    believed = attraction_of(shown, users.fitted.name, seed)
    arms = arms_of(shown, believed, pages, seeds, seed, learners)
    finished = 0

    def done(index: int, result: ArmOutcome) -> None:
        nonlocal finished
        finished += 1
        progress(finished, len(arms))

    results = (engine or Here()).map(arms, rehearse_arm, done)
    measures = tuple(shown.worth)
    base, *others = results
    arm_results = tuple(_result(arm, result, base, measures) for arm, result in zip(arms[1:], others))
    word, take = _verdict(arm_results, base, users)
    return Rehearsal(
        log=shown.name,
        word=word,
        take=take,
        measures=measures,
        today=dict(zip(measures, (PER * base.known.mean(axis=0)).tolist())),
        arms=arm_results,
        users=users,
        fields_matter=believed.fields_matter,
        pairs_matter=float(np.ptp(believed.fitted.attraction / believed.pair_mean)) > 1e-3,
        schema=shown.schema,
        horizon=pages,
        n_seeds=seeds,
        notes=(*shown.notes, *users.notes),
    )


def arms_of(
    log: RehearsalLog, believed: Attraction, pages: int, seeds: int, seed: int, learners: Sequence[str] = ()
) -> list[RehearsalArm]:
    """Today's order, and an arm for each learner that fits what items have."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(log.pages.n_pages)[:MAX_PAGES])
    lists = [log.lists[page] for page in chosen.tolist()]
    rows = np.concatenate([np.arange(log.pages.offsets[page], log.pages.offsets[page + 1]) for page in chosen.tolist()])
    sizes = np.diff(log.pages.offsets)[chosen]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    attraction = np.array([believed.drawn(np.random.default_rng([seed, number]))[rows] for number in range(seeds)])
    worth = np.column_stack(list(log.worth.values()))[rows]
    shown = int(sizes.max())
    base = RehearsalArm(
        name=TODAY,
        learner="",
        queries=(),
        problem=Problem(0),
        users=believed.fitted.spec(shown, by_grade=False),
        attraction=attraction,
        worth=worth,
        offsets=offsets,
        horizon=pages,
    )
    arms = [base]
    today = [standing_at(one, one.position.astype(np.float64)) for one in lists]
    schema = with_today(log.schema)
    encoder = Encoder(schema)
    queries = [one.query(encoder) for one in today]
    for learner in learners or _advised("fields"):
        problem = schema.problem(shown=shown)
        arms.append(
            base._replace(name=f"{_kind(learner)} on fields", learner=learner, queries=queries, problem=problem)
        )
    names = [name for name, kind in schema.features.items() if kind_of(kind) in NUMBERS]
    if len(names) > 1:
        plain = _plain_queries(today, names)
        problem = Problem(len(names), shown=shown, feature_names=tuple(names))
        for learner in learners or _advised("features")[:N_OF_FEATURES]:
            arms.append(
                base._replace(name=f"{_kind(learner)} on numbers", learner=learner, queries=plain, problem=problem)
            )
    return arms


def _advised(items: str) -> list[str]:
    return list(dict.fromkeys(row.use for row in choices("clicks", items) if row.learner is not None))


def _kind(learner: str) -> str:
    return str(spec_of(build(learner, "learner"))["kind"])


def _plain_queries(lists: Sequence[Any], names: Sequence[str]) -> list[Query]:
    """Numbers on one scale: mean 0 and deviation 1 over the log, what is missing is the mean."""
    tables = [np.array([[_number(row.get(name)) for name in names] for row in one.rows]) for one in lists]
    whole = np.concatenate(tables)
    mean, scale = np.nanmean(whole, axis=0), np.maximum(np.nanstd(whole, axis=0), 1e-9)
    scaled = [np.ascontiguousarray(np.nan_to_num((table - mean) / scale)) for table in tables]
    return [Query(one.query_id, table, np.empty(0)) for one, table in zip(lists, scaled)]


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _result(arm: RehearsalArm, found: ArmOutcome, base: ArmOutcome, measures: Sequence[str]) -> ArmResult:
    learner = build(arm.learner, "learner")
    late = (found.shown - base.shown)[:, -LATE:].mean(axis=1)
    known, whole = found.known - base.known, (found.shown - base.shown).mean(axis=1)

    def gains(by_seed: Floats) -> dict[str, RehearsalGain]:
        return {measure: _gain(by_seed[:, number]) for number, measure in enumerate(measures)}

    return ArmResult(
        name=arm.name,
        learner=spec_of(learner),
        curve=PER * found.shown,
        late=gains(late),
        known=gains(known),
        whole=gains(whole),
        exploration=gains(late - known),
        refused=found.refused,
    )


def _gain(by_seed: Floats) -> RehearsalGain:
    """The mean over seeds, per 1,000 pages, with its 95 % interval by Student's t."""
    values = PER * by_seed
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return RehearsalGain(float(values.mean()), float(values.mean() - half), float(values.mean() + half))


def _verdict(arms: Sequence[ArmResult], base: ArmOutcome, users: UserFit) -> tuple[Word, str]:
    if FIXED_ORDER in users.notes:
        return "cannot tell", ""
    needed = PER * MIN_GAIN * float(base.known[:, 0].mean())
    winners = [arm for arm in arms if arm.late["clicks"].low > 0.0 and arm.late["clicks"].mean > needed]
    if not winners:
        return "no gain", ""
    return "take", max(winners, key=lambda arm: arm.late["clicks"].mean).name
