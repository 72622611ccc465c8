import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rankloop import InvalidInput, Preferred, Problem, Query, Session, build
from rankloop.batch.refitted_svm import CHUNK, RefittedSVM, hinge_of_examples

numbers = st.floats(-3, 3)


@given(
    arrays(np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=numbers),
    arrays(np.float64, 3, elements=numbers),
)
def test_the_kernel_against_numpy(examples, weights):
    margins = 1 - examples @ weights
    if np.all(np.abs(margins) > 1e-9):
        value, grad = hinge_of_examples(examples, weights)
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

    assert objective(session.state.weights) <= objective(reference) + 2e-4


def test_fits_come_when_the_rounds_have_grown():
    session, _ = taught(RefittedSVM(growth=2.0), 45)
    assert session.state.next_fit == 80
    assert not np.any(taught(RefittedSVM(), 9)[0].state.weights)
    assert np.any(taught(RefittedSVM(), 10)[0].state.weights)


def test_memory_keeps_the_newest():
    session, examples = taught(RefittedSVM(memory=20, growth=10.0), CHUNK + 80)
    kept = np.vstack([session.state.stored, session.state.recent])
    assert len(session.state.stored) == 20
    np.testing.assert_allclose(kept, examples[-len(kept) :], atol=1e-12)


@pytest.mark.parametrize("bad", [{"growth": 0.5}, {"growth": float("nan")}, {"memory": 0}, {"regularisation": 0.0}])
def test_impossible_parameters_are_refused(bad):
    with pytest.raises(InvalidInput):
        build({"kind": "refitted_svm"} | bad)
