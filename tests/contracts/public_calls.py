"""A good call of every public function that takes data from outside, to be spoilt one argument at a time."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rankloop
from rankloop import Clicks, Problem, Query, Ranker, Relevances, Schema, Session, build
from rankloop import data as datasets
from rankloop.bandits import AUCRanker, threshold
from rankloop.data.dataset import Dataset
from rankloop.evaluation import (
    Options,
    doubly_robust,
    estimate,
    ips,
    pseudo_inverse,
    rows_of,
    score_rankings,
    score_run,
    slate_weight,
    snips,
)
from rankloop.games import advise, analyse, analyse_depths, twins
from rankloop.interleaving import compare, credit, interleave, multileave
from rankloop.measures import mean_of
from rankloop.training import RankBundle, TreeSettings, fit_trees, risk_of


class Call(NamedTuple):
    """A function and arguments that it accepts."""

    function: Callable[..., Any]
    arguments: dict[str, Any]


REWARD, PROPENSITY, TARGET = [0.0, 1.0, 1.0, 0.0], [0.5, 0.5, 0.25, 0.25], [0.5, 0.25, 0.5, 0.25]
LOGGED = {"reward": REWARD, "propensity": PROPENSITY, "target": TARGET}
BY_POSITION = {name: [[value, value] for value in values] for name, values in LOGGED.items()}
ROWS = np.arange(24.0).reshape(8, 3) % 5
GRADES = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 0.0, 2.0, 1.0])
QID = np.repeat([1, 2], 4)
CLICKED = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0])
SETS = Dataset(ROWS, GRADES, np.array([0, 4, 8]), ("1", "2"))
NAMES = ["f", "g", "h"]
FEW = TreeSettings(n_trees=1, n_leaves=2)
KINDS, ASKED = {"price": "number", "brand": "category"}, {"hour": "number"}


def estimated(reward: Any, propensity: Any, target: Any, method: Any, **more: Any) -> Any:
    limit, ndim = more.pop("limit", 1.0), more.pop("ndim", 1)
    return estimate([rows_of(reward, propensity, target, **more, ndim=ndim)], method, Options(limit=limit))


def learned(ranking: Any, items: Any, grades: Any) -> Any:
    """Ranks and learns through a session, as a program would."""
    session = Session(build("online_gradient", "learner"), Problem(n_features=3, max_grade=2), 0)
    query = Query.of(ROWS[:4])
    decision = session.rank(query)._replace(ranking=ranking)
    return session.learn(query, decision, Relevances(items, grades))


def clicked(items: Any, weights: Any) -> Any:
    """Clicks through a session."""
    session = Session(build("fair_pairs", "learner"), Problem(n_features=3), 0)
    query = Query.of(ROWS[:4])
    return session.learn(query, session.rank(query), Clicks(items, weights))


def grown(features: Any, weights: Any, n_folds: Any, query_id: Any) -> Any:
    """Trees of two lists, and the score that they give."""
    lists = SETS._replace(query_ids=("d", "a"))  # of one fold each
    return fit_trees(lists, weights=weights, n_folds=n_folds, settings=FEW).scores(features, query_id)


def ranked(candidates: Any, ids: Any, query: Any) -> Any:
    """Ranks through the front door."""
    return Ranker("3pr", features=NAMES).rank(candidates, ids=ids, query=query)


def ranked_by_name(candidates: Any, context: Any, at: Any) -> Any:
    """The same with a schema."""
    ranker = Ranker("3pr", features=Schema(KINDS, ASKED, ["hour*brand"], 10))
    return ranker.rank(candidates, context=context, at=at)


def taught(clicks: Any) -> Any:
    """Learns through the front door."""
    ranker = Ranker("3pr", features=NAMES)
    ranker.learn(ranker.rank(ROWS, ids=list("abcdefgh")), clicks=clicks)


def judged(measure: Any, ranking: Any, relevance: Any) -> Any:
    return rankloop.parse_measure(measure)(ranking, relevance)


def mixed(method: Any, a: Any, b: Any) -> Any:
    return interleave(method, a, b, np.random.default_rng(0))


def many_mixed(method: Any, rankings: Any) -> Any:
    return multileave(method, rankings, np.random.default_rng(0))


def credited(method: Any, items: Any, weights: Any) -> Any:
    shown = interleave("team_draft", [0, 1, 2, 3], [3, 2, 1, 0], np.random.default_rng(0))
    return credit(method, shown, Clicks(items, weights))


def fitted(X: Any, y: Any, qid: Any, loss: Any, regularisation: Any, max_iterations: Any) -> Any:
    return RankBundle(loss=loss, regularisation=regularisation, max_iterations=max_iterations).fit(X, y, qid=qid)


def auc(X: Any, y: Any, regularisation: Any, n_pairs: Any) -> Any:
    return AUCRanker(regularisation=regularisation, n_pairs=n_pairs, solver="sgd").fit(X, y)


CALLS = {
    "Query.of": Call(Query.of, {"features": ROWS, "context": [1.0], "id": "q"}),
    "Ranker": Call(Ranker, {"learner": "3pr", "features": NAMES, "shown": 3, "depth": None, "max_grade": 1,
                            "seed": 0}),
    "Ranker of a schema": Call(Ranker, {"learner": "3pr", "features": KINDS, "context": ASKED,
                                        "crosses": ["hour*brand"]}),
    "Ranker.rank": Call(ranked, {"candidates": ROWS, "ids": list("abcdefgh"), "query": "q"}),
    "Ranker.rank by name": Call(ranked_by_name, {"candidates": {"a": {"price": 3, "brand": "x"}, "b": {}},
                                                 "context": {"hour": 1.0}, "at": 0.0}),
    "Ranker.learn": Call(taught, {"clicks": ["a"]}),
    "Session.learn": Call(learned, {"ranking": np.arange(4), "items": np.arange(4), "grades": GRADES[:4]}),
    "Session.learn, clicks": Call(clicked, {"items": np.array([1]), "weights": np.array([1.0])}),
    "build": Call(build, {"spec": {"kind": "3pr", "swap": 0.5}, "category": "learner"}),
    "measure": Call(judged, {"measure": "nDCG@3", "ranking": [2, 0, 1, 3], "relevance": GRADES[:4]}),
    "fit_trees": Call(grown, {"features": ROWS, "weights": np.ones(8), "n_folds": 2, "query_id": "q"}),
    "mean_of": Call(mean_of, {"values": [1.0, 2.0]}),
    "interleave": Call(mixed, {"method": "team_draft", "a": [0, 1, 2], "b": [2, 1, 0]}),
    "multileave": Call(many_mixed, {"method": "probabilistic", "rankings": [[0, 1, 2], [2, 1, 0]]}),
    "credit": Call(credited, {"method": "team_draft", "items": np.array([1]), "weights": np.array([1.0])}),
    "compare": Call(compare, {"credits": [np.array([1.0, 0.0])], "first": 0, "second": 1}),
    **{f.__name__: Call(f, LOGGED) for f in (ips, snips)},
    **{name: Call(estimated, BY_POSITION | {"method": name, "ndim": 2}) for name in ("cascade_ips", "position_wise")},
    "clipped_ips": Call(estimated, LOGGED | {"method": "clipped_ips", "limit": 3.0}),
    "direct_method": Call(estimated, LOGGED | {"method": "direct_method", "expected": TARGET}),
    "doubly_robust": Call(doubly_robust, LOGGED | {"predicted": TARGET, "expected": TARGET}),
    "switch_dr": Call(estimated, LOGGED | {"method": "switch_dr", "limit": 1.5, "predicted": TARGET,
                                           "expected": TARGET}),
    "ips, options": Call(ips, LOGGED | {"level": 0.9, "bound": "bernstein", "max_reward": 1.0, "seed": 0}),
    "pseudo_inverse": Call(pseudo_inverse, {"reward": REWARD, "weight": TARGET}),
    "slate_weight": Call(slate_weight, {"shown": [0, 1], "rankings": [[0, 1], [1, 0]], "logged": [0.5, 0.5],
                                        "target": [1.0, 0.0], "n_items": 2}),
    "score_rankings": Call(score_rankings, {"rankings": [1, 0, 0, 1], "relevance": [1.0, 0.0, 0.0, 1.0],
                                            "offsets": [0, 2, 4], "query_ids": ["1", "2"], "measures": ["AP"]}),
    "score_run": Call(score_run, {"run": {"q": {"a": 1.0}}, "qrels": {"q": {"a": 1.0}}, "measures": ["nDCG@10"]}),
    "analyse": Call(analyse, {"measure": "nDCG", "n_items": 3, "depth": 1, "max_grade": 1}),
    "analyse_depths": Call(analyse_depths, {"measure": "AP", "n_items": 3, "max_grade": 1}),
    "advise": Call(advise, {"measure": "nDCG", "n_items": 3, "depth": 1, "max_grade": 1}),
    "twins": Call(twins, {"measure": "nDCG", "n_items": 3, "depth": 1, "max_grade": 1}),
    "RankBundle": Call(fitted, {"X": ROWS, "y": GRADES, "qid": QID, "loss": "ordinal", "regularisation": 0.1,
                                "max_iterations": 20}),
    "risk_of": Call(risk_of, {"loss": "ordinal"}),
    "AUCRanker": Call(auc, {"X": ROWS, "y": CLICKED, "regularisation": 0.1, "n_pairs": 50}),
    "threshold": Call(threshold, {"scores": [0.1, 0.4, 0.9], "clicked": [0, 1, 1], "criterion": "f1"}),
    "concatenate": Call(datasets.concatenate, {"datasets": [SETS, SETS]}),
    "normalise_queries": Call(datasets.normalise_queries, {"dataset": SETS}),
    "read_letor": Call(datasets.read_letor, {"path": "nowhere.txt", "sizes": None, "n_features": 3}),
    "load": Call(rankloop.load, {"path": "nowhere.rankloop"}),
}  # fmt: skip
