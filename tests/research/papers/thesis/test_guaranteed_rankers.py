"""Rankers with the guarantees of the thesis."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.data.dataset import Dataset
from rankloop.evaluation.ranking.score import score_session
from rankloop.training.risks.base import risk_of
from rankloop.training.solution_path import SolverSettings, fit
from research.papers.thesis.guaranteed_rankers import RERM, online_to_batch, rerm_regularisation
from tests.training.test_rank_bundle import sample


def test_online_to_batch_averages_the_weights_that_were_used():
    X, y, qid = sample()
    data = Dataset.of_rows(X, y, qid)
    learner = {"kind": "online_gradient", "surrogate": "list_net", "learning_rate": 0.1}
    session = online_to_batch(learner, data, seed=1)
    assert score_session(session, data, ["nDCG@10"]).overall["nDCG@10"] > 0.85
    single = online_to_batch(learner, data.subset([0]))
    assert not np.any(single.state.weights)  # w₁ = 0, the only one that was used
    with pytest.raises(InvalidInput, match="no weights to average"):
        online_to_batch("random_order", data)


def test_rerm_stays_in_its_ball_and_uses_the_lambda_of_the_theory():
    X, y, qid = sample()
    model = RERM(radius=0.5, lipschitz=1e-4).fit(X, y, qid=qid)  # a slope so small that the ball has to hold it back
    assert 0.48 <= np.linalg.norm(model.coef_) <= 0.5
    free = RERM(radius=5.0).fit(X, y, qid=qid)
    longest = np.sqrt((X**2).sum(axis=1).max())
    expected = np.sqrt(4 * (2 * longest) ** 2 / 40 / (25 / 2 + 100 / 40))
    assert free.regularisation_ == pytest.approx(expected) == rerm_regularisation(2.0, 5.0, longest, 40)
    settings = SolverSettings(tolerance=1e-6)
    exact = fit(Dataset.of_rows(X, y, qid), risk_of("list_net"), expected, settings=settings).weights
    np.testing.assert_allclose(free.coef_, exact, atol=0.02)
