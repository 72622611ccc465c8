"""Tests of refitting a ranking SVM."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from rankloop import InvalidInput, Preferred, Problem, Query, Session, UnstableUpdate, build, load, save
from rankloop.training.svm_refit import CHUNK_EXAMPLES, RefittedSVM, _hinge_of_examples

numbers = st.floats(-3, 3)


@given(
    arrays(np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=numbers),
    arrays(np.float64, 3, elements=numbers),
)
def test_the_kernel_against_numpy(examples, weights):
    margins = 1 - examples @ weights
    if np.all(np.abs(margins) > 1e-9):
        value, grad = _hinge_of_examples(examples, weights)
        np.testing.assert_allclose(value, np.maximum(margins, 0).mean(), atol=1e-12)
        np.testing.assert_allclose(grad, -(examples * (margins > 0)[:, None]).sum(axis=0) / len(examples), atol=1e-12)


def taught(learner, rounds):
    rng = np.random.default_rng(0)
    session = Session(learner, Problem(n_features=4), 0)
    examples = []
    for _ in range(rounds):
        query = Query.of(rng.normal(size=(5, 4)))
        decision = session.rank(query)
        better = np.argsort(-(query.features @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.normal(size=5)), kind="stable")
        discounts = 1 / np.log2(np.arange(5) + 2)
        example = discounts @ query.features[better] - discounts @ query.features[decision.ranking]
        if np.any(better != decision.ranking):
            examples.append(example)
        session.learn(query, decision, Preferred(better))
    return session, np.array(examples)


def test_a_fit_is_the_optimum_of_its_objective():
    sklearn = pytest.importorskip("sklearn.svm")
    session, examples = taught(RefittedSVM(regularisation=0.1, growth=1.0), 60)
    both, labels = np.vstack([examples, -examples]), np.repeat([1, -1], len(examples))
    svm = sklearn.LinearSVC(loss="hinge", fit_intercept=False, C=0.5 / (0.1 * len(examples)), tol=1e-8, max_iter=10**6)
    reference = svm.fit(both, labels).coef_[0]

    def objective(weights):
        return 0.05 * weights @ weights + np.maximum(0, 1 - examples @ weights).mean()

    assert objective(session.state.weights) <= objective(reference) + 2e-4 * (1 - objective(reference))


def exact_optimum(examples, regularisation):
    """Solve the dual of the SVM; its value is a lower bound of the objective, whatever the solver did."""
    n = len(examples)

    def dual(alpha):
        step = alpha @ examples
        return step @ step / (2 * regularisation) - alpha.sum(), examples @ step / regularisation - 1

    options = {"ftol": 1e-16, "gtol": 1e-14, "maxiter": 100_000, "maxfun": 1_000_000}
    solution = minimize(
        dual, np.full(n, 0.5 / n), jac=True, method="L-BFGS-B", bounds=[(0, 1 / n)] * n, options=options
    )
    return solution.x @ examples / regularisation, -solution.fun


@pytest.mark.parametrize("regularisation", [0.1, 1.0, 10.0, 100.0, 1000.0])
def test_every_regularisation_is_solved(regularisation):
    """At a large λ the optimum lies within 1e-4 of the objective at w = 0, and still is a direction to find."""
    session, examples = taught(RefittedSVM(regularisation=regularisation, growth=1.0), 80)
    exact, bound = exact_optimum(examples, regularisation)

    def objective(weights):
        return regularisation / 2 * weights @ weights + np.maximum(0, 1 - examples @ weights).mean()

    weights = session.state.weights
    assert abs(objective(exact) - bound) <= 1e-5 * (1 - bound)  # the reference is exact
    assert objective(weights) - bound <= 1.2e-4 * (1 - bound)
    assert weights @ exact >= 0.999 * np.linalg.norm(weights) * np.linalg.norm(exact)


def test_growth_1_fits_after_every_round():
    session, examples = taught(RefittedSVM(growth=1.0, regularisation=1.0), 3)
    exact, _ = exact_optimum(examples, 1.0)
    assert session.state.next_fit == 4
    np.testing.assert_allclose(session.state.weights, exact, atol=0.02)


def test_fits_come_when_the_rounds_have_grown():
    session, _ = taught(RefittedSVM(growth=2.0), 45)
    assert session.state.next_fit == 80
    assert not np.any(taught(RefittedSVM(), 9)[0].state.weights)
    assert np.any(taught(RefittedSVM(), 10)[0].state.weights)


def test_memory_keeps_the_newest():
    session, examples = taught(RefittedSVM(memory=20, growth=10.0), CHUNK_EXAMPLES + 80)
    kept = np.vstack([session.state.stored, session.state.recent])
    assert len(session.state.stored) == 20
    np.testing.assert_allclose(kept, examples[-len(kept) :], atol=1e-12)


@pytest.mark.parametrize("bad", [{"growth": 0.5}, {"growth": float("nan")}, {"memory": 0}, {"regularisation": 0.0}])
def test_impossible_parameters_are_refused(bad):
    with pytest.raises(InvalidInput):
        build({"kind": "refitted_svm"} | bad)


def two_items(high):
    return Query.of([[0.0], [high]])


def test_an_example_that_is_too_large_to_fit_is_never_stored():
    session = Session(RefittedSVM(), Problem(n_features=1), 0)
    for high in (1e160, 1.7e308):
        with pytest.raises(UnstableUpdate, match="too much to fit"):
            session.learn(two_items(high), session.rank(two_items(high)), Preferred(np.array([1, 0])))
    assert (session.refused, len(session.state.recent)) == (2, 0)
    for _ in range(25):
        session.learn(two_items(1.0), session.rank(two_items(1.0)), Preferred(np.array([1, 0])))
    assert session.refused == 2
    assert session.rank(two_items(1.0)).ranking.tolist() == [1, 0]


@pytest.mark.parametrize("start", [1e300, -1e300, 1e160])
def test_a_start_beyond_numbers_gives_way_to_the_first_fit(start):
    session, plain = (Session(RefittedSVM(start=weights), Problem(n_features=1), 0) for weights in ([start], [0.0]))
    for s in (session, plain):
        for _ in range(12):
            s.learn(
                two_items(1.0), s.rank(two_items(1.0))._replace(ranking=np.array([0, 1])), Preferred(np.array([1, 0]))
            )
    assert session.refused == 0
    np.testing.assert_allclose(session.state.weights, plain.state.weights)
    assert abs(session.state.weights[0]) < 100


def test_an_astronomic_growth_is_saved_and_loaded(tmp_path):
    session = Session(RefittedSVM(growth=1e30), Problem(n_features=1), 0)
    for _ in range(12):
        session.learn(two_items(1.0), session.rank(two_items(1.0)), Preferred(np.array([1, 0])))
    save(session, tmp_path / "svm.rankloop")
    assert load(tmp_path / "svm.rankloop").state.next_fit == session.state.next_fit > 12
