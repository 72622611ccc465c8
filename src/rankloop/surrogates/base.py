"""What surrogates share whose gradient needs the grades of the whole list."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from rankloop.core.types import Floats, Ints


class ListwiseSurrogate(ABC):
    """A convex surrogate that no part of the list is enough for."""

    span: ClassVar[int | None] = None
    convex: ClassVar[bool] = True

    @abstractmethod
    def value_and_grad(self, scores: Floats, relevance: Floats) -> tuple[float, Floats]: ...

    def terms(self, scores: Floats, items: Ints, grades: Floats) -> Floats:
        """The gradient when all items are graded; nothing otherwise."""
        if len(items) < len(scores):
            return np.zeros(len(scores))
        relevance = np.empty(len(scores))
        relevance[items] = grades
        return self.value_and_grad(scores, relevance)[1]
