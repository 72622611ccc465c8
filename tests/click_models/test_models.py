"""One round of expectation maximisation by hand."""

import math

import numpy as np
import pytest

from rankloop.click_models.base import Prior
from rankloop.click_models.models import PositionBasedModel
from rankloop.logs.list_log import ClickArrays


def test_one_round_by_hand(monkeypatch):
    """Two pages of two rows: e = (1, 0.6), a = (0.5, 0.5); page 1 clicks pair 0 on top, page 2 nothing."""
    log = ClickArrays.of(
        np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.array([1.0, 0, 0, 0]), ["q"] * 4, ["a", "b", "b", "a"]
    )
    table, prior = np.array([[1.0], [0.6]]), Prior(np.array([0.5, 0.5]), 0.0)
    monkeypatch.setattr("rankloop.click_models.models.MAX_EM_ROUNDS", 1)
    fitted = PositionBasedModel.fit(log, prior, table=table)
    hidden = 0.6 * 0.5 / (1 - 0.6 * 0.5)  # examined though not clicked, at the second position
    assert fitted.attraction.tolist() == pytest.approx([1 / (1 + hidden), 1e-6])
    assert fitted.examination.tolist() == table.tolist()
    assert fitted.evidence.objectives == (pytest.approx(2 * math.log(0.5) + 2 * math.log(1 - 0.3)),)
