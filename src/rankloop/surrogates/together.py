"""The share of the gradient for surrogates that need every relevance at once."""

from __future__ import annotations

import numpy as np

from rankloop.core.protocols import Surrogate
from rankloop.core.types import Floats, Ints


def terms_of_all(surrogate: Surrogate, scores: Floats, items: Ints, grades: Floats) -> Floats:
    """The gradient when all items are graded; nothing otherwise."""
    if len(items) < len(scores):
        return np.zeros(len(scores))
    relevance = np.empty(len(scores))
    relevance[items] = grades
    return surrogate.value_and_grad(scores, relevance)[1]
