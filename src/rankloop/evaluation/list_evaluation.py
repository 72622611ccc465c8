"""What a log of lists says of a ranker: per page, with bounds, the estimator that was taken, and what to doubt."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankloop.click_models.feature_fit import logistic
from rankloop.core.errors import InvalidInput
from rankloop.core.session import Session
from rankloop.core.types import Floats, whole_number
from rankloop.engine import Engine
from rankloop.evaluation.list_estimate import FEATURES, MOVED, SWAPS, TOLD, Doubts, Interval, ListEstimate
from rankloop.evaluation.list_model import RESAMPLES, ListMethod, ListModel, Values, list_method_of
from rankloop.evaluation.list_pages import HERE, PageTable, ShownPage, page_table

AUTO = "auto"
FEW_CLICKS = 20
SURE = 2.0  # standard errors by which kinds of people must differ in likelihood
MAX_NOVEL = 0.1
MAX_REPEATED = 1.3
MAX_BEYOND, MAX_MISFIT = 0.2, 0.25
STEEPNESS = (0.8, 1.25)  # examination to this power, to see what hangs on it
SIMPLE = ("examination_ips", "examination_dr", "swap_dr")
WHY: dict[ListMethod, str] = {
    "examination_dr": "users judge each position independently: after a click {:.0%} continue",
    "cascade_dr": "users leave after a click: {:.0%} continue",
    "browsing_dr": "which positions users examine depends on their last click",
}


class ListOptions(NamedTuple):
    """What estimators by examination share.

    Attributes:
      level: The probability with which each one-sided bound holds.
      positions: Only what so many first positions earned counts.
      limit: The weight at which estimators cut.
      position_bias: How likely each position is examined; estimated unless given.
      resamples: Of the sessions, for the bounds.
      seed: Of every draw.
    """

    level: float = 0.95
    positions: int = 10
    limit: float = 100.0
    position_bias: Sequence[float] | Floats | None = None
    resamples: int = RESAMPLES
    seed: int = 0


People = tuple[str, tuple[str, ...], float]  # the first three of the doubts


def evaluate_pages(
    session: Session,
    pages: Iterable[ShownPage],
    method: str = AUTO,
    options: ListOptions | None = None,
    engine: Engine = HERE,
    name: str = "ranker",
) -> ListEstimate:
    """The estimate by examination for the ranker of a session, which may be deterministic.

    The engine says where the ranker is asked what it would show; what is fitted to all pages together is fitted here.
    `auto` takes `examination_dr`, or `cascade_dr` or `browsing_dr` where clicks above clearly change what is examined
    below; the interval holds for all kinds of people that the log cannot tell apart.
    References: Joachims, Swaminathan and Schnabel (2017), Unbiased Learning-to-Rank with Biased Feedback; Oosterhuis
    (2023), Doubly-Robust Estimation for Correcting Position-Bias in Click Feedback for Unbiased Learning to Rank;
    Oosterhuis and de Rijke (2020), Policy-Aware Unbiased Learning to Rank for Top-k Rankings.
    """
    options = options or ListOptions()
    if method != AUTO:
        list_method_of(method)
    if not 0.5 <= options.level < 1.0:
        raise InvalidInput(f"level = {options.level} must be a probability from 0.5 to below 1, such as 0.95")
    whole_number(options.positions, "positions", 1)
    swaps = method == "swap_dr"
    table = page_table(pages, session, positions=options.positions, with_swaps=swaps, seed=options.seed, engine=engine)
    if not table.clicked.any():
        raise InvalidInput("nothing was clicked in the first positions of this log: it says nothing about any ranker")
    models = families(table, options)
    likeliest, rivals = told_apart(models)
    chosen: ListMethod = likeliest if method == AUTO else list_method_of(method)
    rivals = rivals if method == AUTO else ()
    simple, model = models["examination_dr"], models.get(chosen, models["examination_dr"])
    cascade = models["cascade_dr"]
    odds = cascade.shown.going @ cascade.examination.going
    going_on = float(logistic(odds)[cascade.shown.clicked > 0].mean())
    why = WHY[chosen].format(going_on) if method == AUTO else "asked for"
    doubts = _doubts(model, (likeliest, rivals, going_on), _repeated(simple), _sensitivity(model, models, chosen))
    values, resamples = model.values(chosen), [model.resampled(chosen, options.resamples, options.seed)]
    resamples += [models[one].resampled(one, options.resamples, options.seed) for one in rivals]
    allowance = _allowance(model, doubts) + np.abs(values.misfit)
    ranker, log, gain = _intervals(model.names, values, resamples, options.level, allowance)
    return ListEstimate(
        name=name,
        method=chosen,
        why=why,
        n_pages=table.n_pages,
        n_sessions=table.n_sessions,
        n_clicks=int(table.clicked.sum()),
        level=options.level,
        ranker=ranker,
        log=log,
        gain=gain,
        ndcg=_ndcg(model),
        doubts=doubts,
        cannot_tell=_cannot_tell(table, doubts, gain[model.names[0]]),
        warnings=_warnings(doubts, chosen, gain[model.names[0]]),
    )


def families(table: PageTable, options: ListOptions) -> dict[ListMethod, ListModel]:
    """The kinds of people, the simplest first; where examination is told, only those who go by it."""
    told = _examined(options.position_bias)
    more: Any = {"told": told, "limit": options.limit, "seed": options.seed}
    simple = ListModel(table, **more)
    found: dict[ListMethod, ListModel] = {"examination_dr": simple}
    found["cascade_dr"] = ListModel(table, dependent=True, like=simple, **more)
    if told is None:
        found["browsing_dr"] = ListModel(table, dependent=True, browsing=True, like=simple, **more)
    return found


def _examined(position_bias: Sequence[float] | Floats | None) -> Floats | None:
    """Return how likely each position is examined beside the first."""
    if position_bias is None:
        return None
    examined = np.array(position_bias, dtype=np.float64)
    if not ((examined > 0) & (examined <= 1)).all():
        raise InvalidInput("position bias: every position is seen with a probability above 0, at most 1")
    relative: Floats = examined / examined[0]
    return relative


def told_apart(models: dict[ListMethod, ListModel]) -> tuple[ListMethod, tuple[ListMethod, ...]]:
    """The people whose model foretells the clicks of other sessions best, and those that might be as good.

    A later kind is taken where its held-out log-likelihood is higher by `SURE` standard errors of the difference over
    sessions; those that are not worse by as much remain possible.
    Reference: Vuong (1989), Likelihood Ratio Tests for Model Selection and Non-Nested Hypotheses.
    """
    held_out = {name: model.examination.held_out for name, model in models.items()}

    def lead(one: ListMethod, other: ListMethod) -> float:
        by_session = held_out[one] - held_out[other]
        return float(by_session.sum() / max(np.sqrt(len(by_session)) * by_session.std(), 1e-9))

    names: list[ListMethod] = list(models)
    best = names[0]
    for name in names[1:]:
        if lead(name, best) > SURE:
            best = name
    return best, tuple(name for name in names if name != best and lead(best, name) < SURE)


def _intervals(
    names: tuple[str, ...], found: Values, resamples: list[list[Values]], level: float, allowance: Floats
) -> tuple[dict[str, Interval], dict[str, Interval], dict[str, Interval]]:
    """Around what was found; with several lists of resamples, one for each kind of people, they hold for all."""
    made: list[dict[str, Interval]] = []
    parts: list[Callable[[Values], Floats]] = [lambda one: one.ranker, lambda one: one.log, Values.gain]
    for of in parts:
        value = of(found)
        ends = [np.quantile([of(one) for one in drawn], [1.0 - level, level], axis=0) for drawn in resamples]
        more = allowance if len(made) != 1 else np.zeros(len(value))  # the log itself needs none
        low = np.min([value, *(low for low, _ in ends)], axis=0) - more
        high = np.max([value, *(high for _, high in ends)], axis=0) + more
        made.append(dict(zip(names, map(Interval, value.tolist(), low.tolist(), high.tolist()))))
    return made[0], made[1], made[2]


def _doubts(model: ListModel, people: People, repeated: float, sensitivity: tuple[float, float]) -> Doubts:
    table, rows = model.table, model.rows
    a = model.attraction([one.weights for one in model.folds])
    exposed = model.exposure(model.parameters, a, a[None]).examined
    share = exposed * a / max(float((exposed * a).sum()), 1e-12)
    chain = model.chain(model.parameters, a)
    seen = np.exp(model.parameters[model.shown.cell]) * (1.0 if chain is None else chain.from_above)
    weight = np.minimum(exposed[rows] / seen, model.limit)
    hits, said = weight * table.clicked[rows], weight * seen * a[rows]
    session = model.row_session[rows]
    by_session = np.bincount(session, hits - said * (hits.sum() / max(said.sum(), 1e-12)), table.n_sessions)
    calibration = float(hits.sum() / said.sum()) if said.sum() > 0 else 1.0
    likeliest, rivals, going_on = people
    known_by = SWAPS if model.swapped else MOVED if model.moved else FEATURES
    return Doubts(
        examined=tuple(np.exp(model.examination.log_examined[: table.n_positions]).round(6).tolist()),
        known_by=known_by if model.log_told is None else TOLD,
        likeliest=likeliest,
        rivals=rivals,
        going_on=going_on,
        repeated=repeated,
        effective_clicks=float(hits.sum() ** 2 / max((hits**2).sum(), 1e-12)),
        beyond=float((share * model.beyond()).sum()),
        novel=float((share * model.novel()).sum()),
        calibration=calibration,
        calibration_error=float(np.sqrt((by_session**2).sum()) / max(said.sum(), 1e-12)),
        sensitivity=sensitivity,
    )


def _allowance(model: ListModel, doubts: Doubts) -> Floats:
    """How far the part that only the click model tells may be off: as far as where it was checked, and as its shape."""
    a, straight = model.attraction([one.weights for one in model.folds]), model.straight()
    per_click = model.rates(np.ones(len(a)))[:, None] * model.worth
    exposed = model.exposure(model.parameters, a, a * per_click).examined * model.beyond()
    alone: Floats = (exposed * a * per_click).sum(axis=1) / model.table.n_pages
    otherwise: Floats = (exposed * straight * per_click).sum(axis=1) / model.table.n_pages
    return abs(doubts.calibration - 1.0) * alone + np.abs(alone - otherwise)


def _sensitivity(model: ListModel, models: dict[ListMethod, ListModel], method: ListMethod) -> tuple[float, float]:
    """The least and the largest gain over other models of examination: of other people, flatter, steeper."""
    gains = []
    for own, one in models.items():
        gains.append(float(one.values(own if one is not model else method).gain()[0]))
    for power in STEEPNESS:
        parameters = model.parameters.copy()
        parameters[: model.cells.n] *= power
        gains.append(float(model.values(method, parameters, folds=model.fitted_folds(parameters)).gain()[0]))
    return min(gains), max(gains)


def _cannot_tell(table: PageTable, doubts: Doubts, gain: Interval) -> tuple[str, ...]:
    found, below = [], int(table.clicked[table.position > 0].sum())
    if table.clicked.sum() < FEW_CLICKS:
        found.append(f"it has {table.clicked.sum():.0f} clicks, and {FEW_CLICKS} or more are needed")
    elif doubts.known_by != TOLD and table.n_positions > 1 and below < FEW_CLICKS:
        found.append(
            f"below the first position it has {below} clicks, so nobody knows what is examined there: give "
            "--position-bias, or let the ranker explore"
        )
    if doubts.novel > MAX_NOVEL:
        found.append(
            f"{doubts.novel:.0%} of what the ranker would earn comes from items that are like none that was shown"
        )
    misfit = abs(doubts.calibration - 1.0)
    if doubts.beyond > MAX_BEYOND and misfit > MAX_MISFIT + 2.0 * doubts.calibration_error:
        found.append(
            f"{doubts.beyond:.0%} of what the ranker would earn comes from items that were not shown, and where the "
            f"click model can be checked, there are {doubts.calibration:.2f} times the clicks that it expects"
        )
    low, high = doubts.sensitivity
    if doubts.known_by == FEATURES and low * high < 0 and (gain.lower > 0 or gain.upper < 0):
        found.append(
            "no item is known to have moved, so examination is guessed from features, and whether the ranker is better "
            "depends on that guess: give --position-bias, or let the ranker explore"
        )
    return tuple(found)


def _warnings(doubts: Doubts, method: str, gain: Interval) -> tuple[str, ...]:
    found = []
    if doubts.effective_clicks < FEW_CLICKS and method == "examination_ips":
        found.append(f"the estimate is based on about {doubts.effective_clicks:.0f} clicks")
    if doubts.beyond > MAX_BEYOND and method == "examination_ips":
        found.append(
            f"{doubts.beyond:.0%} of what the ranker would earn comes from items that were not shown, which "
            "examination_ips counts as nothing: use examination_dr"
        )
    elif doubts.beyond > MAX_BEYOND:
        found.append(f"{doubts.beyond:.0%} of the estimate is what the click model says of items that were not shown")
    if method not in (doubts.likeliest, *doubts.rivals) and not (method in SIMPLE and doubts.likeliest in SIMPLE):
        why = WHY[doubts.likeliest].format(doubts.going_on)  # type: ignore[index]
        found.append(f"{why}, which {method} does not know: use {doubts.likeliest}")
    if doubts.repeated > MAX_REPEATED:
        found.append(
            f"pages have {doubts.repeated:.1f} times as many pairs of clicks as positions that stand by themselves "
            "would: people differ, and the model of examination is only their mean"
        )
    low, high = doubts.sensitivity
    if low * high < 0 and (gain.lower > 0 or gain.upper < 0):
        found.append(
            f"under other models of examination the gain per 1,000 pages lies between {1000 * low:.0f} and "
            f"{1000 * high:.0f}"
        )
    return tuple(found)


def _repeated(model: ListModel) -> float:
    """Pairs of clicks on the same page, by how many the position-based model expects."""
    a = model.attraction([one.weights for one in model.folds])[model.rows]
    p, page, n = np.exp(model.parameters[model.shown.position]) * a, model.shown.page, model.table.n_pages
    hits, said = np.bincount(page, model.shown.clicked, n), np.bincount(page, p, n)
    expected = float((said**2 - np.bincount(page, p**2, n)).sum())
    return float((hits * (hits - 1)).sum()) / max(expected, 1e-9)


def _ndcg(model: ListModel) -> tuple[float, float]:
    """nDCG over the positions, the click model's attraction being the gain: of the ranker, and of what was shown."""
    table = model.table
    a = model.attraction([one.weights for one in model.folds])
    discount = 1.0 / np.log2(np.arange(table.n_positions) + 2.0)
    order = np.lexsort((-a, table.page))
    starts = np.searchsorted(table.page[order], np.arange(table.n_pages))
    rank = np.arange(len(order)) - starts[table.page[order]]
    top = rank < table.n_positions
    ideal = np.bincount(table.page[order][top], a[order][top] * discount[rank[top]], table.n_pages)
    seen = model.rows
    shown = np.bincount(table.page[seen], a[seen] * discount[table.position[seen]], table.n_pages)
    wanted = (np.append(a, 0.0)[table.best] * discount).sum(axis=1)
    some = ideal > 0
    return float((wanted[some] / ideal[some]).mean()), float((shown[some] / ideal[some]).mean())
