"""fixed_weights ranks by the weights that it is given."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

from rankloop.core.errors import InvalidInput
from rankloop.core.registry import build
from rankloop.core.types import Problem, Query


def test_fixed_weights_rank_by_their_weights():
    learner = build({"kind": "fixed_weights", "weights": [1, -2]})
    state = learner.init(Problem(n_features=2))
    query = Query.of([[1.0, 1.0], [0.0, 0.0], [3.0, 1.0]])  # scores −1, 0, 1
    assert learner.predict(state, query).tolist() == [2, 1, 0]
    assert learner.rank(state, query, default_rng(0)).ranking.tolist() == [2, 1, 0]
    assert learner.log_prob(state, query, np.array([2, 1, 0])) == 0.0
    assert learner.log_prob(state, query, np.array([1, 2, 0])) == -math.inf


def test_fixed_weights_have_to_fit_the_features():
    with pytest.raises(InvalidInput, match="2 weights for 3 features"):
        build("fixed_weights(weights=[1.0, 2.0])").init(Problem(n_features=3))
    with pytest.raises(InvalidInput, match=r"weights\[0\]"):
        build("fixed_weights(weights=[nan])")
