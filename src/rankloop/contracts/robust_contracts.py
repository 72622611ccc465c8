"""The contract on bad rows: through `robust`, as rankers learn, one of them does not ruin the order of the others."""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator, default_rng

from rankloop.contracts.cases import Case, contract, require
from rankloop.core.errors import UnstableUpdate
from rankloop.core.session import Session, with_robust
from rankloop.core.types import Clicks, Feedback, Floats, Ints, Preferred, Query, Relevances, Reward

N_VISITS, N_ITEMS, N_GOOD, N_JUDGED = 300, 20, 5, 20
SEEDS = (0, 1, 2)
MAX_POSITIONS_MOVED = 2.0
CLICK_RATES = (0.05, 0.6)  # on other items and on good ones, at the first position
CLICK_DECAY = 0.15  # by position
BAD_LISTS = ((0, "one_row"), (2, "one_value"), (150, "one_value"), (295, "all_rows"))  # with the visit of each


@contract("keep the learned part in a field `weights` of the state, which `robust` limits; else take smaller steps")
def check_one_bad_row(case: Case) -> None:
    """One visit with extreme features among 300 moves the mean position of five good items by at most 2."""
    if not case.featured or case.problem.n_features < 2 or not case.name.endswith("-0-plain"):
        return
    clean = np.mean([_mean_position(case, seed) for seed in SEEDS])
    for visit, spoil in BAD_LISTS:
        spoilt = np.mean([_mean_position(case, seed, visit, spoil) for seed in SEEDS])
        message = f"a bad list ({spoil}) at visit {visit} moves good items from {clean:.1f} to {spoilt:.1f}"
        require(bool(spoilt <= clean + MAX_POSITIONS_MOVED), message)


def _mean_position(case: Case, seed: int, bad_visit: int = -1, spoil: str = "") -> float:
    """Return the mean position of good items, from 1, after honest visits and at most one bad one."""
    session = Session(with_robust(case.learner, case.problem), case.problem, seed)
    visits = _visits(case, default_rng(seed))
    for visit in range(N_VISITS):
        if visit == bad_visit:
            features, _ = next(_visits(case, default_rng(99)))
            if spoil == "one_value":
                features[0, 0] = -1000.0
            elif spoil == "one_row":
                features[0] = 1e6 * np.resize([-1.0, 1.0], features.shape[1])
            else:
                features *= 1e4
            _learn(session, features, np.array([0]), np.ones(N_ITEMS))
        features, good = next(visits)
        _learn(session, features, good, default_rng((seed, visit)).random(N_ITEMS))
    positions, visits = [], _visits(case, default_rng(5))
    for _ in range(N_JUDGED):
        features, good = next(visits)
        positions.append(np.flatnonzero(np.isin(session.predict(_query(session, features)), good)).mean() + 1)
    return float(np.mean(positions))


def _visits(case: Case, rng: Generator) -> Iterator[tuple[Floats, Ints]]:
    """Yield the features of lists, and the items of each that are good by the first two features."""
    while True:
        features = rng.normal(size=(N_ITEMS, case.problem.n_features))
        yield features, np.argsort(0.7 * features[:, 1] - features[:, 0])[:N_GOOD]


def _query(session: Session, features: Floats) -> Query:
    return Query("", features, np.zeros(session.problem.n_context))


def _learn(session: Session, features: Floats, good: Ints, draws: Floats) -> None:
    """Rank a list and learn from a user who likes the good items; draws of 1 are clicks on these alone."""
    query = _query(session, features)
    decision = session.rank(query)
    feedback = _feedback(session, decision.ranking, good, draws)
    try:
        session.learn(query, decision, feedback)
    except UnstableUpdate:
        return  # a refused update changes nothing


def _feedback(session: Session, ranking: Ints, good: Ints, draws: Floats) -> Feedback:
    kinds, problem, grades = session.learner.accepts, session.problem, np.zeros(N_ITEMS)
    grades[good] = 1.0
    if Clicks in kinds:
        items = ranking[: problem.shown]
        rates = np.array(CLICK_RATES)[grades[items].astype(int)] / (1.0 + CLICK_DECAY * np.arange(len(items)))
        clicked = grades[items] > 0 if draws.min() == 1.0 else draws[: len(items)] < rates
        return Clicks(np.sort(items[clicked]), np.ones(int(clicked.sum())))
    if Relevances in kinds:
        items = ranking[: problem.depth].copy()
        return Relevances(items, grades[items] * problem.max_grade)
    if Preferred in kinds:
        return Preferred(np.concatenate([ranking[grades[ranking] > 0], ranking[grades[ranking] == 0]]))
    return Reward(float(grades[ranking[0]]))
