"""The answer of a rehearsal: which learner to take, what it would win and cost, or that there is nothing to win."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from rankloop.advice import choices
from rankloop.click_models.fit import BEST, FIXED_ORDER, UserFit, fit_users
from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build, spec_of
from rankloop.core.types import Floats, Problem, Query
from rankloop.engine import Engine, Here
from rankloop.experiments.rehearsal.attraction import Attraction, attraction_of, standing_at, with_today
from rankloop.experiments.rehearsal.play import BLOCKS, LATE, Rehearsal, Rehearsed, rehearse_arm
from rankloop.experiments.rehearsal.shown_log import ShownLog
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.typed_columns import kind_of

TODAY = "today's order"
PER = 1000  # pages, in every number that people read
MIN_GAIN = 0.01  # of what today's order earns: less is not worth a project
MAX_PAGES = 2000  # different pages of the log that are played
N_OF_FEATURES = 3  # learners on plain numbers: the first choices of the advice
NUMBERS = ("number", "flag")
Word = Literal["take", "no gain", "cannot tell"]


class Gain(NamedTuple):
    """A mean over seeds, per 1,000 pages, and its interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        mean, low, high = (round(value, 1) + 0.0 for value in self)  # no minus before 0
        return f"{mean:+,.1f} ({low:+,.1f} to {high:+,.1f})"


class ArmResult(NamedTuple):
    """What an arm earned beside today's order, by measure (clicks, purchases, money)."""

    name: str
    learner: Any  # its spec, with every parameter
    curve: Floats  # (seeds, blocks, measures), per 1,000 pages
    late: dict[str, Gain]  # when it has learned, exploration included
    known: dict[str, Gain]  # on the same pages without exploration
    whole: dict[str, Gain]  # over the whole rehearsal
    exploration: dict[str, Gain]  # what is lost at the end by exploring
    refused: int


class Answer(NamedTuple):
    """What a rehearsal says."""

    word: Word
    take: str  # the arm; empty: none
    measures: tuple[str, ...]
    today: dict[str, float]  # per 1,000 pages
    arms: tuple[ArmResult, ...]
    users: UserFit
    fields_matter: bool
    pairs_matter: bool
    schema: Schema
    horizon: int
    n_seeds: int
    notes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        found = {arm.name: arm for arm in self.arms}
        if self.word == "cannot tell":
            return f"This log cannot tell: {FIXED_ORDER}. Show some lists in another order, then ask again."
        if self.word == "no gain" and not self.fields_matter and not self.pairs_matter:
            return (
                "No gain to be seen: keep today's order. Nothing tells the items of this log apart by more than "
                "chance; a longer log, or other columns, may."
            )
        if self.word == "no gain":
            best = max(self.arms, key=lambda arm: arm.late["clicks"].mean)
            change = f"{best.name}, would change clicks by {best.late['clicks']} per {PER:,} pages"
            if best.late["clicks"].mean > MIN_GAIN * self.today["clicks"]:
                return f"No sure gain yet: the best learner, {change}. More --pages and --seeds, no --quick, can tell."
            return f"No gain: keep today's order. The best learner, {change}."
        arm = found[self.take]
        wins = ", ".join(f"{arm.late[measure]} {measure}" for measure in self.measures)
        share = arm.late["clicks"].mean / self.today["clicks"]
        return f"Take {arm.name}: {wins} per {PER:,} pages beside today's order ({share:+.1%} clicks)."


def rehearse(
    log: ShownLog,
    model: str = BEST,
    *,
    pages: int = 3000,
    seeds: int = 5,
    seed: int = 0,
    learners: Sequence[str] = (),
    engine: Engine | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Answer:
    """Fit the people, play each learner for so many pages and seeds, and compare with today's order on the same pages.

    Every seed is another world that the log allows. `learners` are played instead of those of the advice.
    """
    if seeds < 2 or pages < BLOCKS:
        raise InvalidInput(f"a rehearsal needs at least 2 seeds and {BLOCKS} pages, got {seeds} and {pages}")
    users = fit_users(log.pages, model, folds=3, seed=seed)
    believed = attraction_of(log, users.fitted.name, seed)
    arms = rehearsals(log, believed, pages, seeds, seed, learners)
    finished = 0

    def done(index: int, result: Rehearsed) -> None:
        nonlocal finished
        finished += 1
        progress(finished, len(arms))

    results = (engine or Here()).map(arms, rehearse_arm, done)
    measures = tuple(log.worth)
    base, *others = results
    found = tuple(_result(arm, result, base, measures) for arm, result in zip(arms[1:], others))
    word, take = _verdict(found, base, users)
    today = dict(zip(measures, (PER * base.known.mean(axis=0)).tolist()))
    matter = believed.fields_matter, float(np.ptp(believed.fitted.attraction / believed.pair_mean)) > 1e-3
    notes = (*log.notes, *users.notes)
    return Answer(word, take, measures, today, found, users, *matter, log.schema, pages, seeds, notes)


def rehearsals(
    log: ShownLog, believed: Attraction, pages: int, seeds: int, seed: int, learners: Sequence[str] = ()
) -> list[Rehearsal]:
    """Today's order, and an arm for each learner that fits what items have."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(log.pages.n_pages)[:MAX_PAGES])
    lists = [log.lists[page] for page in chosen.tolist()]
    rows = np.concatenate([np.arange(*log.pages.offsets[[page, page + 1]]) for page in chosen.tolist()])
    sizes = np.diff(log.pages.offsets)[chosen]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    attraction = np.array([believed.drawn(np.random.default_rng([seed, number]))[rows] for number in range(seeds)])
    worth = np.column_stack(list(log.worth.values()))[rows]
    shown = int(sizes.max())
    rest = believed.fitted.spec(shown, by_grade=False), attraction, worth, offsets, pages
    arms = [Rehearsal(TODAY, "", (), Problem(0), *rest)]
    today = [standing_at(one, one.position.astype(np.float64)) for one in lists]
    schema = with_today(log.schema)
    encoder = Encoder(schema)
    queries = [one.query(encoder) for one in today]
    for learner in learners or _advised("fields"):
        arms.append(Rehearsal(f"{_kind(learner)} on fields", learner, queries, schema.problem(shown=shown), *rest))
    names = [name for name, kind in schema.features.items() if kind_of(kind) in NUMBERS]
    if len(names) > 1:
        plain = _plain_queries(today, names)
        problem = Problem(len(names), shown=shown, feature_names=tuple(names))
        for learner in learners or _advised("features")[:N_OF_FEATURES]:
            arms.append(Rehearsal(f"{_kind(learner)} on numbers", learner, plain, problem, *rest))
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


def _result(arm: Rehearsal, found: Rehearsed, base: Rehearsed, measures: Sequence[str]) -> ArmResult:
    learner = build(arm.learner, "learner")
    late = (found.shown - base.shown)[:, -LATE:].mean(axis=1)
    known, whole = found.known - base.known, (found.shown - base.shown).mean(axis=1)

    def gains(by_seed: Floats) -> dict[str, Gain]:
        return {measure: _gain(by_seed[:, number]) for number, measure in enumerate(measures)}

    won = gains(late), gains(known), gains(whole), gains(late - known)
    return ArmResult(arm.name, spec_of(learner), PER * found.shown, *won, found.refused)


def _gain(by_seed: Floats) -> Gain:
    """The mean over seeds, per 1,000 pages, with its 95 % interval by Student's t."""
    values = PER * by_seed
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return Gain(float(values.mean()), float(values.mean() - half), float(values.mean() + half))


def _verdict(arms: Sequence[ArmResult], base: Rehearsed, users: UserFit) -> tuple[Word, str]:
    if FIXED_ORDER in users.notes:
        return "cannot tell", ""
    needed = PER * MIN_GAIN * float(base.known[:, 0].mean())
    winners = [arm for arm in arms if arm.late["clicks"].low > 0.0 and arm.late["clicks"].mean > needed]
    if not winners:
        return "no gain", ""
    return "take", max(winners, key=lambda arm: arm.late["clicks"].mean).name
