"""The estimators by examination: exact by enumeration of clicks and swaps, gradients by finite differences."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from rankloop import Problem, Query, Session, build
from rankloop.core.errors import InvalidInput
from rankloop.evaluation import RankingPolicy
from rankloop.evaluation.list_model import ListModel, _walk, list_method_of
from rankloop.evaluation.list_pages import ShownPage, page_table

EXAMINED = np.array([1.0, 0.5, 0.25])


def fixed(*weights: float, shown: int | None = None) -> Session:
    learner = build({"kind": "fixed_weights", "weights": weights}, "learner")
    return Session(learner, Problem(n_features=len(weights), shown=shown))


def some_pages(n: int = 60, seed: int = 0, items: int = 5) -> list[ShownPage]:
    """Three of five items are seen, each clicked at random."""
    rng = np.random.default_rng(seed)
    pages = []
    for _ in range(n):
        query, order = Query.of(rng.normal(size=(items, 2))), rng.permutation(items)
        clicked = (rng.random(3) < 0.4).astype(float)
        pages.append(ShownPage(query, order, clicked, outcomes={"sold": clicked * (rng.random(3) < 0.5)}))
    return pages


def model_of(
    pages: list[ShownPage], session: Session, dependent: bool = False, browsing: bool = False, **more: Any
) -> ListModel:
    table = page_table(pages, session, positions=3, **more)
    return ListModel(table, told=EXAMINED, dependent=dependent, browsing=browsing)


def test_doubly_robust_is_its_formula() -> None:
    """Σ_target examined · â + Σ_shown examined by the ranker / examined in the log · (click − examined · â)."""
    pages, session = some_pages(), fixed(1.0, -1.0)
    model = model_of(pages, session)
    a, total, plain, row = model.attraction([fold.weights for fold in model.folds]), 0.0, 0.0, 0
    for page in pages:
        wanted = np.argsort(-(page.query.features @ [1.0, -1.0]), kind="stable")[:3].tolist()
        items = list(dict.fromkeys([*page.ranking[:3].tolist(), *wanted]))
        model_says = dict(zip(items, a[row : row + len(items)]))
        row += len(items)
        total += sum(EXAMINED[position] * model_says[item] for position, item in enumerate(wanted))
        for position, item in enumerate(page.ranking[:3].tolist()):
            weight = EXAMINED[wanted.index(item)] / EXAMINED[position] if item in wanted else 0.0
            total += weight * (page.clicked[position] - EXAMINED[position] * model_says[item])
            plain += weight * page.clicked[position]
    assert model.values("examination_dr").ranker[0] == pytest.approx(total / len(pages))
    assert model.values("examination_ips").ranker[0] == pytest.approx(plain / len(pages))


@pytest.mark.parametrize("dependent", [False, True])
def test_the_order_that_was_shown_earns_what_it_earned(dependent: bool) -> None:
    """Without chance and with the same order there is nothing to guess."""
    rng, pages = np.random.default_rng(1), []
    for _ in range(80):
        query = Query.of(rng.normal(size=(4, 2)))
        order = np.argsort(-query.features[:, 0], kind="stable")
        clicked = (rng.random(3) < 0.5).astype(float)
        pages.append(ShownPage(query, order, clicked, outcomes={"sold": clicked * 0.5}))
    model = model_of(pages, fixed(1.0, 0.0), dependent)
    found = model.values("cascade_dr" if dependent else "examination_dr")
    assert found.ranker == pytest.approx(found.log)
    assert found.misfit[0] == pytest.approx(0.0, abs=0.1 if dependent else 1e-12)


def test_inverse_propensities_are_unbiased_over_all_clicks() -> None:
    """The mean over all clicks that people could make is what the ranker would earn."""
    query, order = Query.of([[3.0], [2.0], [1.0]]), np.array([2, 0, 1])
    attraction = np.array([0.6, 0.3, 0.8])
    mean = 0.0
    for clicks in product((0.0, 1.0), repeat=3):
        p = EXAMINED * attraction[order]
        chance_of = float(np.prod(np.where(np.array(clicks) > 0, p, 1 - p)))
        pages = [ShownPage(query, order, np.array(clicks)), ShownPage(query, order, np.ones(3))]
        model = model_of(pages, fixed(1.0))
        counts = np.array([1.0, 0.0])  # the other page is there so that there always are clicks
        mean += chance_of * model.values("examination_ips", counts=counts).ranker[0]
    assert mean == pytest.approx(float(EXAMINED @ attraction))


def test_known_swaps_make_up_for_what_was_seldom_shown() -> None:
    """Over all swaps and clicks, the item that is hardly seen counts in full: a click model is not needed."""
    learner = build("fair_pairs(swap=0.3)", "learner")
    state = learner.init(Problem(n_features=1, shown=2))
    query, attraction = Query.of([[3.0], [2.0], [1.0]]), np.array([0.6, 0.3, 0.8])
    policy, session = RankingPolicy(learner, state), fixed(1.0, shown=2)
    examined, mean = EXAMINED[:2], 0.0
    for order in ([0, 1, 2], [1, 0, 2], [0, 2, 1]):
        for clicks in product((0.0, 1.0), repeat=2):
            p = examined * attraction[order[:2]]
            happens = np.exp(learner.log_prob(state, query, np.array(order)))
            happens *= float(np.prod(np.where(np.array(clicks) > 0, p, 1 - p)))
            one = ShownPage(query, np.array(order), np.array(clicks), drawn_by=policy)
            other = one._replace(clicked=np.ones(2))
            table = page_table([one, other], session, positions=2, with_swaps=True)
            model = ListModel(table, told=examined)
            mean += happens * model.values("swap_dr", counts=np.array([1.0, 0.0]), weights=_same(model)).ranker[0]
    assert mean == pytest.approx(float(examined @ attraction[:2]))


def _same(model: ListModel) -> list[Any]:
    """A click model that is the same whatever was clicked, and wrong."""
    return [np.zeros(len(fold.weights)) for fold in model.folds]


def test_the_walk_is_the_sum_over_all_clicks_and_who_leaves() -> None:
    """What a page of three brings, by enumeration of its clicks and of who goes on after each."""
    rng = np.random.default_rng(0)
    table, a, going, v = rng.random((3, 4)), rng.random(4), rng.random(4), rng.random((2, 4))
    rows = [2, 0, 3]
    total = np.zeros(2)
    for clicks, stays in product(product((0, 1), repeat=3), repeat=2):
        chance_of, there, last, brought = 1.0, True, 0, np.zeros(2)
        for i, (row, hit, stay) in enumerate(zip(rows, clicks, stays)):
            p = table[i, last] * a[row] if there else 0.0
            chance_of *= p if hit else 1.0 - p
            chance_of *= going[row] if stay else 1.0 - going[row]
            if hit:
                brought += v[:, row] / a[row]
                there, last = bool(stay), i + 1
        total += chance_of * brought
    examined, _ = _walk(np.array([[rows]]), table, a, v, going)
    assert (examined * v).sum(axis=1) == pytest.approx(total)
    assert examined[1] == 0.0


@pytest.mark.parametrize("browsing", [False, True])
def test_what_an_item_takes_from_those_below_is_a_derivative(browsing: bool) -> None:
    model = model_of(some_pages(20), fixed(1.0, -1.0), dependent=True, browsing=browsing)
    model.parameters[model.cells.n - 1] -= 0.5  # so that it matters where the last click was
    a = model.attraction([fold.weights for fold in model.folds])
    v = np.stack([a, 0.3 * a])

    def value(a: Any, v: Any) -> Any:
        return (model.exposure(model.parameters, a, v).examined * v).sum(axis=1)

    exposure = model.exposure(model.parameters, a, v)
    for row in range(0, len(a), 7):
        step = np.zeros(len(a))
        step[row] = 1e-6
        slope = (value(a + step, v) - value(a - step, v)) / 2e-6
        assert exposure.by_attraction[:, row] == pytest.approx(slope, abs=1e-6)
        worth = (value(a, v + step) - value(a, v - step)) / 2e-6
        assert exposure.examined[row] == pytest.approx(worth[0], abs=1e-6)


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="examination_dr"):
        list_method_of("examinatoin_dr")
    with pytest.raises(InvalidInput, match="does not say which states drew"):
        model_of(some_pages(), fixed(1.0, 0.0), with_swaps=True)
    with pytest.raises(InvalidInput, match="no pages"):
        page_table([], fixed(1.0, 0.0), positions=3)
